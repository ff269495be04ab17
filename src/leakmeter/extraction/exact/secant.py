"""Our reconstruction from gradients: a linear piece at a start point, then every bend on the way to far points.

Each far point costs one query. Where the copy already predicts it, nothing more is asked; where it surprises, a unit
is missing between the start and the point, and the line to it is searched for what the copy does not yet explain. So
units of earlier lines cost nothing on later ones, and a bend taken for one unit that was two is put right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.errors import Inconclusive
from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.line import Line, SaturatedError
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.probes import far_points, start_points
from leakmeter.seeds import stream

_CANDIDATES = 8
_HALVINGS = 12


@dataclass
class Findings:
    """The copy and how far it can be trusted."""

    network: OneHidden
    rounds: int = 1
    lines: int = 0
    """Segments searched."""
    quiet: int = 0
    """Far points in a row that the copy predicted before they were asked."""
    exhausted: bool = False
    """The budget ended before the search did."""


def reconstruct(asker: Asker, *, seed: int, patience: int, max_lines: int) -> Findings:
    """Grows a copy until `patience` far points in a row hold no surprise, or lines or budget run out."""
    generator = stream(seed, "exact")
    start, network = _begin(asker, generator)
    found = Findings(network)
    batch = min(2, patience)
    while found.quiet < patience and found.lines < max_lines:
        batch = asker.room(batch)
        if batch == 0:
            found.exhausted = True
            break
        points = far_points(start, asker.spec, batch, generator)
        answer = asker.ask(points)
        found.rounds += 1
        for i in range(batch):
            _visit(asker, found, start, points[i], answer[i : i + 1])
        batch = min(2 * batch, patience)
    return found


def _begin(asker: Asker, generator: torch.Generator) -> tuple[Tensor, OneHidden]:
    """The linear piece at a start point: of several candidates the one whose probabilities are easiest to read."""
    wanted = 1 if asker.view.kind == "logits" else _CANDIDATES
    points = asker.rounded(start_points(asker.spec, max(1, asker.room(wanted)), generator))
    answer = asker.ask(points)
    best = int(answer.size.argmin())
    if not bool(answer.usable[best]):
        raise Inconclusive("the victim's probabilities are 0 wherever it was asked; ask through a logits view")
    assert answer.gradients is not None
    return points[best], OneHidden(points[best], answer.values[best], answer.gradients[best])


def _visit(asker: Asker, found: Findings, start: Tensor, point: Tensor, answer: Pieces) -> None:
    """Learns what lies between the start and a far point, or less far where probabilities cannot be read there."""
    for _ in range(_HALVINGS):
        if bool(answer.usable):
            line = Line(asker, found.network, start, point)
            end = line.end(answer)
            if line.explained(end):
                found.quiet += 1
                return
            found.quiet = 0
            found.lines += 1
            try:
                bends = line.bends(end)
            except SaturatedError:
                pass
            else:
                found.rounds += bends.rounds
                line.learn(bends)
                return
        if asker.room(1) == 0:
            return
        point = (start + point) / 2
        answer = asker.ask(point[None])
