"""A line through the victim's input space with every bend on it: what layers are later read from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.kinks import Bends, Trace, search
from leakmeter.extraction.exact.line import SaturatedError

_SLACK = 8.0


@dataclass(frozen=True)
class Survey:
    """One searched line, x = origin + t along for low <= t <= high."""

    origin: Tensor
    along: Tensor
    ends: tuple[float, float]
    t: Tensor
    """Where it bends, rising, [m]."""
    t_error: Tensor
    """How far off that may be, [m]."""
    normals: Tensor
    """The direction of input space in which the gradient jumps, length one, [m, d]."""
    size: Tensor
    """How large the jump is (Frobenius), [m]."""
    error: Tensor
    """How far off a normal may be, [m]; infinite where several bends could not be told apart."""
    cells: Trace
    """Every point asked, with its value and gradient."""
    short: bool = False
    """Whether it was laid across one unit's surface, and says nothing about how often units are met."""

    @property
    def points(self) -> Tensor:
        """The bends, [m, d]."""
        return self.at(self.t)

    def at(self, t: Tensor) -> Tensor:
        """Points of the line, [n, d]."""
        return self.origin + t[:, None] * self.along


def gradient_survey(
    asker: Asker, origin: Tensor, along: Tensor, ends: tuple[float, float], *, short: bool = False
) -> tuple[Survey, int]:
    """Searches a line where gradients are shown; returns the rounds of questions as well.

    Raises:
        SaturatedError: where a probability on the way cannot be read.
    """

    def ask(t: Tensor) -> Trace:
        ideal = origin + t[:, None] * along
        answer = asker.ask(ideal)
        if not bool(answer.usable.all()):
            raise SaturatedError
        return _trace(asker, t, ideal, answer)

    known = ask(origin.new_tensor(ends))
    bends = search(ask, known, along, resolution=8 * asker.eps, room=asker.room)
    return _survey(origin, along, ends, bends, short), bends.rounds + 1


def _trace(asker: Asker, t: Tensor, ideal: Tensor, answer: Pieces) -> Trace:
    """The answers, moved from the rounded points the victim saw onto the line."""
    assert answer.gradients is not None
    x = asker.rounded(ideal)
    f = answer.values + torch.einsum("ncd,nd->nc", answer.gradients, ideal - x)
    scale = x.square().mean(1).sqrt()
    f_noise = _SLACK * asker.eps * (answer.size + asker.steepest * scale)
    g_noise = torch.full_like(t, _SLACK * asker.eps * asker.steepest)
    return Trace(t, f, answer.gradients, f_noise, g_noise)


def _survey(origin: Tensor, along: Tensor, ends: tuple[float, float], bends: Bends, short: bool) -> Survey:
    """Factors every jump into what the outputs do (dropped) and the normal."""
    jump = bends.jump
    basis = torch.linalg.eigh(jump @ jump.mT)[1]
    lead = (basis[:, :, -1:].mT @ jump)[:, 0]
    size = lead.norm(dim=1)
    rest = (jump - basis[:, :, -1:] @ lead[:, None]).flatten(1).norm(dim=1)
    error = torch.maximum(bends.noise, rest) / size
    error = torch.where(bends.merged, torch.inf, error)
    return Survey(origin, along, ends, bends.t, bends.error, lead / size[:, None], size, error, bends.cells, short)
