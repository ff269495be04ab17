"""One seed, many streams: named, stable and apart."""

from __future__ import annotations

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from leakmeter.seeds import derive, stream

NAMES = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 99)), max_size=3).map(tuple)


def test_streams_stay_what_they_are_between_versions() -> None:
    assert derive(0, "a") == 4950127121108668649
    assert derive(1, "fit", 300) == 2786236227468173798


@example(0, ("a", "b"), 0, ("a/b",))
@example(0, ("a\\", "b"), 0, ("a\\/b",))
@given(st.integers(0, 5), NAMES, st.integers(0, 5), NAMES)
def test_different_names_give_different_streams(seed: int, names: tuple, other: int, others: tuple) -> None:
    same = (str(seed), *map(str, names)) == (str(other), *map(str, others))
    assert (derive(seed, *names) == derive(other, *others)) == same
    assert 0 <= derive(seed, *names) < 2**63


def test_a_stream_starts_afresh_each_time() -> None:
    a, b = (torch.rand(5, generator=stream(3, "pool")) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, torch.rand(5, generator=stream(4, "pool")))
