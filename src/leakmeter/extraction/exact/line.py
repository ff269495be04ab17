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
    """x = start + t along. At t = 0 the copy is right; far points lie at t = length, and at -length if there are two."""

    def __init__(self, asker: Asker, network: OneHidden, start: Tensor, far: Tensor) -> None:
        self.asker, self.network, self.start = asker, network, start
        self.length = 1.0 if asker.spec.width is not None else reach(asker.spec)
        self.along = (far - start) / self.length
        self.noise = _SLACK * asker.eps * (1 + network.units) ** 0.5  # every known unit is known up to rounding

    def ends(self, answer: Pieces) -> Trace:
        """What the copy leaves unexplained at the far points."""
        return self._trace(self.start.new_tensor([self.length, -self.length])[: len(answer.usable)], answer)

    def explained(self, ends: Trace) -> bool:
        """Whether that is nothing."""
        g, f = ends.g.flatten(1).norm(dim=1), ends.f.norm(dim=1)
        return bool(((g <= ends.g_noise) & (f <= ends.f_noise)).all())

    def bends(self, ends: Trace) -> Bends:
        """Every bend of the unexplained part."""
        first = ends[:1]
        known = Trace(0 * first.t, 0 * first.f, 0 * first.g, 0 * first.f_noise, first.g_noise).join(ends)
        known = known[torch.argsort(known.t)]
        return search(self._ask, known, self.along, resolution=8 * self.asker.eps, room=self.asker.room)

    def learn(self, bends: Bends) -> None:
        """Adds a unit for each bend, off at the start."""
        least = self.noise * self.asker.steepest
        away = torch.sign(bends.t)  # on the near side of the start the jump was met backwards
        normals, weights, rows = factor(bends.jump * away[:, None, None], away[:, None] * self.along, least)
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
        f_noise = self.noise * (answer.size + self.asker.steepest * x.square().mean(1).sqrt())
        return Trace(t, f, g, f_noise, torch.full_like(t, self.noise * self.asker.steepest))
