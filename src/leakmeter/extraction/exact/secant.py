"""Our reconstruction from gradients: one query for the piece at the start, then bends by intersecting pieces."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.kinks import Trace, search
from leakmeter.extraction.exact.line import Line
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.survey import Survey, gradient_survey, trace


class GradientLine(Line):
    """A line on which values and gradients are shown."""

    @staticmethod
    def first_piece(asker: Asker, start: Tensor, answer: Pieces) -> OneHidden:  # noqa: ARG004
        """The answer shows it."""
        assert answer.gradients is not None
        return OneHidden(start, answer.values[0], answer.gradients[0])

    def explained(self) -> bool:
        """Whether the copy predicted values and gradients at the far points, as far as a search could tell."""
        ends = self._trace(self.far, self.answer)
        g, f = ends.g.flatten(1).norm(dim=1), ends.f.norm(dim=1)
        # a search compares two noisy gradients; one that small, all the way from the start, moves values as well
        return bool(((g <= 2 * ends.g_noise) & (f <= 4 * (ends.f_noise + self.bias_error()))).all())

    def explore(self) -> int:
        """Every bend is a unit, every jump its weights."""
        self.asked = [self._raw(self.far, self.answer)]
        bends = search(
            self._search,
            self.with_start(self._trace(self.far, self.answer)),
            self.along,
            resolution=8 * self.asker.eps,
            room=self.asker.room,
            # on the first line only, and where other lines are diverse enough to show what is wrong
            believe=self.network.units == 0 and self.asker.d > 8,
        )
        self.learn(bends.t, bends.jump)
        return bends.rounds

    def survey(self) -> Survey:
        """The line as it is, nothing subtracted; gaps that were believed are searched, nothing is asked twice."""
        known = self.asked[0]
        for more in self.asked[1:]:
            known = known.join(more)
        known = known[torch.argsort(known.t)]
        ends = (float(known.t[0]), float(known.t[-1]))
        return gradient_survey(self.asker, self.start, self.along, ends, False, known)

    def _search(self, t: Tensor) -> Trace:
        answer = self.ask(t)
        self.asked.append(self._raw(t, answer))
        return self._trace(t, answer)

    def _raw(self, t: Tensor, answer: Pieces) -> Trace:
        return trace(self.asker, t, self.at(t), answer)

    def _trace(self, t: Tensor, answer: Pieces) -> Trace:
        """The answers less the copy's, moved from the rounded points the victim saw onto the line."""
        assert answer.gradients is not None
        ideal = self.at(t)
        x = self.asker.rounded(ideal)
        values, gradients = self.network.pieces(x)
        g = answer.gradients - gradients
        f = answer.values - values + torch.einsum("ncd,nd->nc", g, ideal - x)
        f_noise = self.rounding(x, answer)
        self._give_benefit_of_doubt(x, f, g, f_noise)
        return Trace(t, f, g, f_noise, torch.full_like(t, self.noise * self.asker.steepest))

    def _give_benefit_of_doubt(self, x: Tensor, f: Tensor, g: Tensor, f_noise: Tensor) -> None:
        """Where rounding leaves open whether a known unit is on, takes what explains the gradient better (in place)."""
        weights, normals = self.network.weights, self.network.normals
        z = self.network.hidden(x)
        for row, unit in (z.abs() * weights.norm(dim=0) <= f_noise[:, None]).nonzero().tolist():
            sign = -1 if z[row, unit] > 0 else 1
            other = g[row] - sign * torch.outer(weights[:, unit], normals[unit])
            if other.norm() < g[row].norm():
                g[row] = other
                f[row] -= sign * weights[:, unit] * z[row, unit]
