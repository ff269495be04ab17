"""Queries bred from queries: what a victim took for a class it names rarely is changed a little and asked again.

Code and photographs seldom look like every class, so some classes are hardly ever answered. Whatever came near one of
these is a good parent: its children, turned, shifted, mirrored, recoloured and with a piece of another parent pasted
in, come near it again and differ, which shows the victim's boundaries where blind queries show nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.makers.canvas import chance, normal, uniform
from leakmeter.extraction.procedural import fairest, jittered
from leakmeter.victims.spec import VictimSpec

_PASTED = 0.6  # of the children have a piece of a second parent
_SMALLEST, _LARGEST = 0.2, 0.6  # of a picture's side: the sides of a piece
_TINT, _SHADE = 0.1, 0.06


class Stock:
    """Large pictures to breed from: as many as fit, shared evenly among the classes, the latest of each."""

    def __init__(self, most: int, shape: tuple[int, ...]) -> None:
        self._pictures = torch.empty(most, *shape, dtype=torch.half)  # memory is taken as it is filled
        self._rows, self._labels, self._held = torch.full((most,), -1), torch.zeros(most).long(), 0

    @property
    def x(self) -> Tensor:
        """The pictures, in half precision, which is enough for parents."""
        return self._pictures[: self._held]

    @property
    def rows(self) -> Tensor:
        """Their numbers among all queries."""
        return self._rows[: self._held]

    def add(self, x: Tensor, start: int, labels: Tensor, classes: int) -> None:
        """Takes in queries, numbered from `start`, in the place of what no longer fits."""
        rows, named = torch.arange(start, start + len(x)), torch.cat([self._labels[: self._held], labels])
        kept = fairest(named, -torch.cat([self.rows, rows]), torch.zeros(max(2, classes)))[: len(self._rows)]
        stays, comes = kept[kept < self._held], kept[kept >= self._held] - self._held
        places = torch.ones(len(self._rows), dtype=torch.bool).index_fill_(0, stays, False).nonzero()[: len(comes), 0]
        self._pictures[places] = x[comes].half()
        self._rows[places], self._labels[places] = rows[comes], labels[comes]
        self._held = len(kept)


def parents(probs: Tensor, labels: Tensor, n: int, draws: torch.Generator) -> Tensor:
    """Two rows of `probs` for each of `n` children, [2, n], by how likely each was a class.

    Every class has as many children as it lacks among all `labels`.
    """
    wanted = 1 / labels.bincount(minlength=probs.shape[1]).clamp_min(1).float()
    classes = torch.multinomial(wanted, n, replacement=True, generator=draws)
    chosen = torch.empty(2, n, dtype=torch.long)
    for number, likely in enumerate(probs.float().T + 1e-6):
        places = (classes == number).nonzero()[:, 0]
        if len(places):
            drawn = torch.multinomial(likely, 2 * len(places), replacement=True, generator=draws)
            chosen[:, places] = drawn.reshape(2, -1)
    return chosen


def offspring(mothers: Tensor, fathers: Tensor, spec: VictimSpec, draws: torch.Generator) -> Tensor:
    """A child of each pair of pictures, in the victim's box."""
    n = len(mothers)
    children = _changed(mothers, draws)
    pasted = _pieces(n, tuple(mothers.shape[2:]), draws) * chance(draws, _PASTED, n, 1, 1, 1)
    children = torch.lerp(children, _changed(fathers, draws), pasted)
    if spec.low is None or spec.high is None:
        return spec.clamp(children)
    low, width = spec.low.to(children), (spec.high - spec.low).to(children)
    tint, shade = (normal(draws, n, mothers.shape[1], 1, 1) * _TINT).exp(), normal(draws, n, 1, 1, 1) * _SHADE
    return spec.clamp(low + ((children - low) / width * tint + shade) * width)


def _changed(x: Tensor, draws: torch.Generator) -> Tensor:
    """Half of them mirrored, all a little turned, zoomed and shifted."""
    return jittered(torch.where(chance(draws, 0.5, len(x), 1, 1, 1).bool(), x.flip(3), x), 2.0, draws)


def _pieces(n: int, shape: tuple[int, ...], draws: torch.Generator) -> Tensor:
    """A rectangle anywhere in each picture, 1 inside and 0 outside, [n, 1, height, width]."""
    masks = []
    for side in shape:
        length = uniform(draws, n, 1, low=_SMALLEST, high=_LARGEST) * side
        start = uniform(draws, n, 1) * (side - length)
        at = torch.arange(side)
        masks.append(((at >= start) & (at < start + length)).float())
    return masks[0][:, None, :, None] * masks[1][:, None, None, :]
