"""Bends of a line in single precision: it is sampled, and the samples are cut into straight segments.

Slopes from steps so short that they rarely cross a bend are mostly rounding there. A segment of many samples has
its slope from all of them, and two segments meet where the bend is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

_SAMPLES = 192
_FEW = 4
"""Samples that a segment needs for its slope to be believed."""
_ROUNDS = 40


@dataclass(frozen=True)
class Samples:
    """Values [n, C] at positions [n] in order, and how far rounding may have moved them, [n]."""

    t: Tensor
    f: Tensor
    noise: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Samples:
        return Samples(self.t[rows], self.f[rows], self.noise[rows])

    def join(self, other: Samples) -> Samples:
        """The samples of both, in order, none twice."""
        t = torch.cat([self.t, other.t])
        order = torch.argsort(t, stable=True)
        order = order[torch.diff(t[order], prepend=t.new_full((1,), -torch.inf)) > 0]
        return Samples(t[order], torch.cat([self.f, other.f])[order], torch.cat([self.noise, other.noise])[order])


@dataclass(frozen=True)
class Segment:
    """Samples first to last (not included) lie on the line value + slope t."""

    first: int
    last: int
    value: Tensor
    slope: Tensor


@dataclass(frozen=True)
class Bends:
    """Where a line bends, [m] in order, and its slopes before, between and behind them, [m + 1, C]."""

    t: Tensor
    slopes: Tensor
    errors: Tensor
    """How far off the slopes may be, [m + 1]."""
    rounds: int


def scan(
    ask: Callable[[Tensor], Samples], ends: tuple[float, float], resolution: float, room: Callable[[int], int]
) -> Bends | None:
    """The bends between the ends; None where the budget ends before anything can be told."""
    low, high = (math.atan(end) for end in ends)
    t = torch.tan(torch.linspace(low, high, room(_SAMPLES), dtype=torch.float64))
    if len(t) < _FEW:
        return None
    samples, rounds = ask(t), 1
    while rounds < _ROUNDS:
        t = _questions(samples, segments(samples), resolution)
        t = t[: room(len(t))]
        if not len(t):
            break
        samples, rounds = samples.join(ask(t)), rounds + 1
    cut = segments(samples)
    # a known unit that is a little beside its place shifts values and bends nothing: lines then meet anywhere
    meet = [_meet(a, b)[0].clamp(samples.t[a.last - 1], samples.t[b.first]) for a, b in pairwise(cut)]
    slopes, noise = torch.stack([one.slope for one in cut]), samples.noise
    span = torch.stack([samples.t[one.last - 1] - samples.t[one.first] for one in cut]).clamp(min=1e-300)
    errors = torch.stack([noise[one.first : one.last].max() for one in cut]) / span
    return Bends(torch.stack(meet) if meet else t[:0], slopes, errors, rounds)


def segments(samples: Samples) -> list[Segment]:
    """The fewest straight segments, each as long as rounding allows, from the first sample on."""
    found, first, n = [], 0, len(samples.t)
    while first < n:
        good, reach = min(first + 2, n), 2
        while good < n:  # twice as far as long as that is straight, then by halves
            tried = min(first + 2 * reach, n)
            if tried == good or not _straight(samples, first, tried):
                break
            good, reach = tried, tried - first
        bad = min(first + 2 * reach, n) + (good == n)
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if _straight(samples, first, middle) else (good, middle)
        found.append(Segment(first, good, *_fit(samples[first:good])))
        first = good
    return found


def _fit(samples: Samples) -> tuple[Tensor, Tensor]:
    """The line through samples that misses them least, each by its noise."""
    weight = 1 / samples.noise.square()
    total = weight.sum()
    t, f = (weight * samples.t).sum() / total, (weight[:, None] * samples.f).sum(0) / total
    away = samples.t - t
    slope = ((weight * away)[:, None] * (samples.f - f)).sum(0) / (weight * away.square()).sum().clamp(min=1e-300)
    return f - slope * t, slope


def _straight(samples: Samples, first: int, last: int) -> bool:
    some = samples[first:last]
    value, slope = _fit(some)
    off = (some.f - value - some.t[:, None] * slope).norm(dim=1)
    return bool((off <= some.noise).all())


def _meet(left: Segment, right: Segment) -> tuple[Tensor, Tensor]:
    """Where two segments meet, and by how much the slope changes."""
    bend = right.slope - left.slope
    square = bend.square().sum().clamp(min=1e-300)
    return -((right.value - left.value) * bend).sum() / square, square.sqrt()


def _questions(samples: Samples, cut: list[Segment], resolution: float) -> Tensor:
    """Where two segments are said to meet and that was not asked, and between the samples of short ones."""
    t, wanted = samples.t, []
    for i, one in enumerate(cut):
        inner = t[max(one.first - 1, 0) : one.last + 1]
        least = resolution * (1 + float(t[one.first].abs()))
        if one.last - one.first < _FEW and float(inner[-1] - inner[0]) > _FEW * least:
            gaps = torch.diff(inner) > least
            wanted.append(((inner[1:] + inner[:-1]) / 2)[gaps])
        elif i + 1 < len(cut) and cut[i + 1].last - cut[i + 1].first >= _FEW:
            left, right = t[one.last - 1], t[cut[i + 1].first]
            meet, bend = _meet(one, cut[i + 1])
            close = torch.maximum(2 * samples.noise[one.last - 1] / bend, torch.as_tensor(least).to(bend))
            if right - left <= 2 * close or torch.minimum((meet - left).abs(), (meet - right).abs()) <= close:
                continue
            inside = bool((meet > left) & (meet < right))
            wanted.append((meet if inside else (left + right) / 2)[None])
    return torch.cat([t[:0], *wanted])
