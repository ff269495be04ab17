"""Our reconstruction from integrated gradients: rays from the baseline, on which values bend and averages jump.

With m steps the server averages the gradients at shares (2k + 1) / 2m of the way to the input. On a ray a unit switches
at one place, which the values show as a bend. So it is known for every question how many shares of its way lie behind
each bend, and what it shows is the sum of all jumps, each so many m-ths times: equations for the jumps, more of them
than jumps, that the search for the bends has paid for already.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.values import Cell, ValueLine

_ILL = 1e4  # condition of the equations from which more are asked for


class RayLine(ValueLine):
    """A line from the baseline, on which values and integrated gradients are shown."""

    def __init__(self, asker: Asker, network: OneHidden, start: Tensor, far: Tensor, answer: Pieces) -> None:
        super().__init__(asker, network, start, far, answer)
        self._seen = [(self.far, answer)]

    @staticmethod
    def first_piece(asker: Asker, start: Tensor, answer: Pieces) -> OneHidden:  # noqa: ARG004
        """Beside the baseline all gradients of the average are the same."""
        assert answer.gradients is not None
        return OneHidden(start, answer.values[0], answer.gradients[0])

    def ask(self, t: Tensor) -> Pieces:
        """One query for each position, remembered."""
        answer = super().ask(t)
        self._seen.append((t, answer))
        return answer

    def _walk(self, t: Tensor, side: int) -> list[Cell]:
        """The cells on one side of the start, each the one before it and a jump."""
        t = self._apart(t, side)
        none = t.new_zeros(self.asker.outputs, self.asker.d)
        cells = [Cell(self.start, none[:, 0], none, 0.0)]
        error = self.asker.steps * self.noise * self.asker.steepest
        for (bend, following), jump in zip(pairwise(self._with_end(t, side)), self._jumps(t, side), strict=True):
            inside = self._inside(bend, following)
            if inside is None:
                break
            cells.append(Cell(*inside, cells[-1].gradient + jump, error))
        return cells

    def _jumps(self, t: Tensor, side: int) -> Tensor:
        """By how much the gradient changes outwards at each bend, [bends, C, d]: least squares over all questions."""
        if not len(t):
            return t.new_zeros(0, self.asker.outputs, self.asker.d)
        times, shown = self._equations(t, side)
        if len(times) < len(t) or float(torch.linalg.cond(times)) > _ILL:
            last = t / (1 - 0.5 / self.asker.steps)  # where the last share of the way passes a bend
            more = last + 32 * self._step() * (1 + last.abs()) * side
            more = more[more.abs() <= self.length]
            if 0 < len(more) <= self.asker.room(len(more)):
                self.ask(more)
                times, shown = self._equations(t, side)
        found: Tensor = torch.linalg.lstsq(times, shown.flatten(1), driver="gelsd").solution
        return found.reshape(len(t), *shown.shape[1:])

    def _equations(self, t: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """How many shares of each question's way lie behind each bend, and the jumps times these, added up."""
        at, _, shown = self._questions(side)
        shares = (torch.arange(self.asker.steps).to(at) + 0.5) / self.asker.steps
        passed = (at.abs()[:, None] * shares)[:, :, None] - t.abs()
        clear = (passed.abs() > 16 * self._step() * (1 + t.abs())).all(2).all(1)
        x = self.asker.rounded(self.at(at))
        known = torch.stack([self.network.pieces(self.start + share * (x - self.start))[1] for share in shares]).sum(0)
        return (passed > 0).sum(1).to(at)[clear], (self.asker.steps * shown - known)[clear]

    def _questions(self, side: int) -> tuple[Tensor, Tensor, Tensor]:
        """All on one side: where, the values there, and the averages."""
        at = torch.cat([t for t, _ in self._seen])
        values = torch.cat([answer.values for _, answer in self._seen])
        averages = torch.cat([answer.gradients for _, answer in self._seen if answer.gradients is not None])
        here = torch.sign(at) == side
        return at[here], values[here], averages[here]

    def _inside(self, bend: Tensor, following: Tensor) -> tuple[Tensor, Tensor] | None:
        """A point between two bends, and what the copy leaves unexplained there; None where the budget ends."""
        middle, side = (bend + following) / 2, int(torch.sign(bend))
        at, values, _ = self._questions(side)
        off = (at - middle).abs()
        if not len(off) or float(off.min()) > 0.4 * float((following - bend).abs()):
            if self.asker.room(1) == 0:
                return None
            self.ask(middle[None])
            return self._inside(bend, following)
        best = int(off.argmin())
        x = self.asker.rounded(self.at(at[best : best + 1]))
        return x[0], values[best] - self.network(x)[0]
