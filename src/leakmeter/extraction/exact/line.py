"""A segment from the start point to a far one, and what the copy does not yet explain along it."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.kinks import Bends, Trace, search
from leakmeter.extraction.exact.network import OneHidden, factor
from leakmeter.extraction.exact.probes import reach

_SLACK = 8.0
"""Rounding is taken to be at most so many times what a single operation does; wrong guesses cost queries, not truth."""


class SaturatedError(Exception):
    """A probability on the way is too small to be read."""


class Line:
    """x = start + t along, from t = 0, where the copy is right, to t = length."""

    def __init__(self, asker: Asker, network: OneHidden, start: Tensor, end: Tensor) -> None:
        self.asker, self.network, self.start = asker, network, start
        self.length = 1.0 if asker.spec.width is not None else reach(asker.spec)
        self.along = (end - start) / self.length
        self.noise = _SLACK * asker.eps * (1 + network.units) ** 0.5  # every known unit is known up to rounding

    def end(self, answer: Pieces) -> Trace:
        """What is left unexplained at the far point."""
        return self._trace(self.start.new_full((1,), self.length), answer)

    def explained(self, end: Trace) -> bool:
        """Whether nothing is."""
        return bool(end.g.norm() <= end.g_noise) and bool(end.f.norm() <= end.f_noise)

    def bends(self, end: Trace) -> Bends:
        """Every bend of the unexplained part."""
        known = Trace(0 * end.t, 0 * end.f, 0 * end.g, 0 * end.f_noise, end.g_noise)
        resolution = 8 * self.asker.eps
        return search(self._ask, known.join(end), self.along, resolution=resolution, room=self.asker.room)

    def learn(self, bends: Bends) -> None:
        """Adds a unit for each bend."""
        least = self.noise * self.asker.steepest
        normals, weights, rows = factor(bends.jump, self.along, least)
        offsets = ((self.start + bends.t[rows, None] * self.along) * normals).sum(1)
        self.network.add(normals, offsets, weights, same=self.asker.eps ** (1 / 3), negligible=least)

    def _ask(self, t: Tensor) -> Trace:
        answer = self.asker.ask(self.start + t[:, None] * self.along)
        if not bool(answer.usable.all()):
            raise SaturatedError
        return self._trace(t, answer)

    def _trace(self, t: Tensor, answer: Pieces) -> Trace:
        """The answers less the copy's, moved from the rounded points the victim saw onto the line."""
        assert answer.gradients is not None
        ideal = self.start + t[:, None] * self.along
        x = self.asker.rounded(ideal)
        values, gradients = self.network.pieces(x)
        g = answer.gradients - gradients
        f = answer.values - values + torch.einsum("ncd,nd->nc", g, ideal - x)
        f_noise = self.noise * (answer.size + self.asker.steepest * x.norm(dim=1))
        return Trace(t, f, g, f_noise, torch.full_like(t, self.noise * self.asker.steepest))
