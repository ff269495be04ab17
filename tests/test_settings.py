"""Texts such as `noise:0.1`: numbers by the types of what they are for, and one sentence for the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UsageError
from leakmeter.registry import Registry
from leakmeter.settings import from_text


@dataclass(frozen=True)
class Thing:
    size: int
    share: float = 0.5


THINGS: Registry[type[Thing]] = Registry("size", {"thing": f"{__name__}:Thing"})


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_as_they_were_written(size: int, share: float) -> None:
    assert from_text(THINGS, f"thing:{size},{share!r}") == Thing(size, share)


@given(st.text("0123456789.,:eE+-_ naif", max_size=12))
def test_garbage_is_refused_or_means_what_it_says(text: str) -> None:
    try:
        thing = from_text(THINGS, f"thing:{text}")
    except UsageError:
        return
    size, *share = text.split(",")
    assert isinstance(thing.size, int)
    assert thing.size == int(size)
    assert math.isfinite(thing.share)
    assert thing.share == (float(share[0]) if share else 0.5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("thing", "expected the size thing:SIZE,SHARE, got 'thing'"),
        ("thing:1,2,3", "expected the size thing:SIZE,SHARE, got 'thing:1,2,3'"),
        ("thing:1.5", "expected whole numbers in 'thing:1.5', got '1.5'"),
        ("thing:1,inf", "expected numbers in 'thing:1,inf', got 'inf'"),
    ],
)
def test_mistakes(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        from_text(THINGS, text)
