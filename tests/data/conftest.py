"""What several tests of the parsers share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

Damaged = Callable[[bytes], st.SearchStrategy[bytes]]


@st.composite
def _damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` cut short, or with bytes changed, inserted or removed; mostly near its ends, where headers are."""
    size = len(whole)
    near = min(400, size)
    place = st.one_of(st.integers(0, near), st.integers(size - near, size), st.integers(0, size))
    raw = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at, extra = draw(place), draw(st.binary(min_size=1, max_size=8))
        match draw(st.sampled_from(["change", "insert", "remove", "cut"])):
            case "change":
                raw[at : at + len(extra)] = extra
            case "insert":
                raw[at:at] = extra
            case "remove":
                del raw[at : at + len(extra)]
            case "cut":
                del raw[at:]
    return bytes(raw)


@pytest.fixture(scope="session")
def damaged() -> Damaged:
    return _damaged


@pytest.fixture(autouse=True)
def _no_data_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Searches end in an empty cache, whatever the machine has."""
    monkeypatch.delenv("LEAKMETER_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("leakmeter.data.places.DEBIAN", tmp_path_factory.mktemp("debian"))
