"""Grows a copy outwards from a start point until far points no longer surprise it.

Each far point costs one query. Where the copy already predicts it, nothing more is asked; where it surprises, a unit
is missing between the start and the point, and the line to it is searched for what the copy does not yet explain. So
units of earlier lines cost nothing on later ones, and a bend taken for one unit that was two is put right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakmeter.errors import Inconclusive
from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.extremes import extreme_points
from leakmeter.extraction.exact.kinks import CrowdedError
from leakmeter.extraction.exact.line import Line, SaturatedError
from leakmeter.extraction.exact.meeting import meeting_points
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.probes import far_points, start_points
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.seeds import stream

Watch = Callable[[OneHidden], None]
_CANDIDATES = 8
_HALVINGS = 24
_EXTREMES, _SWEEPS = 128, 3
_FAR = 100.0
_AGAIN = 2, 0.1
"""So many units, and such a share of those known, may bend otherwise than before: a bend taken for one that was two."""
_AGAIN_IN_ALL = 8, 0.5
"""The same for all lines together."""

_UNFITTED = 4
"""So many lines may leave a copy that does not explain what was asked: two bends taken for one."""


@dataclass
class Findings:
    """The copy and how far it can be trusted."""

    network: OneHidden
    rounds: int = 1
    """Batches of questions asked."""
    lines: int = 0
    """Lines searched."""
    quiet: int = 0
    """Far points in a row that the copy predicted before they were asked."""
    vague: int = 0
    """Those of them at which rounding would have hidden a difference that matters."""
    proved: bool = False
    """The extremes of what the copy does were asked as well, and none of them holds a surprise."""
    exhausted: bool = False
    """The budget ended before the search did."""
    halvings: int = 0
    """How often the way to far points had to be halved lately for probabilities to be readable there."""
    crowded: bool = False
    """A line had more bends than can be kept track of."""
    again: int = 0
    """How often a known unit bent otherwise than before."""
    unfitted: int = 0
    """After how many lines in a row no copy explained everything asked."""
    deep: bool = False
    """Units bend differently on different lines: there are layers above them."""
    ways: list[Line] = field(default_factory=list)
    """The lines searched until that was seen."""


def reconstruct(
    asker: Asker, line: type[Line], *, seed: int, patience: int, max_lines: int, watch: Watch = lambda _: None
) -> Findings:
    """Ends when `patience` far points in a row held no surprise, or after `max_lines`, or with the budget.

    `watch` is shown the copy whenever more was asked: what is there long before the search can be sure that it is all.
    """
    generator = stream(seed, "exact")
    start, answer = _begin(asker, generator)
    found = Findings(line.first_piece(asker, start, answer))
    watch(found.network)
    try:
        _look_far(asker, line, found, start, generator, patience, max_lines, watch)
        if found.quiet >= patience and not found.deep:
            with asker.whole_budget():
                _look_at_extremes(asker, line, found, start, generator, patience, max_lines)
            watch(found.network)
    except CrowdedError:
        found.crowded = True
    found.exhausted = not found.proved and not found.deep and asker.room(1) == 0
    return found


def _look_far(
    asker: Asker,
    line: type[Line],
    found: Findings,
    start: Tensor,
    generator: torch.Generator,
    patience: int,
    max_lines: int,
    watch: Watch,
) -> None:
    """Visits random far points until `patience` of them in a row held no surprise."""
    while found.quiet < patience and found.lines < max_lines and not found.deep:
        # few at first: what the first lines teach explains most later points
        batch = asker.room(min(max(2, 10 * found.quiet), patience - found.quiet))
        if batch == 0:
            break
        points = far_points(start, asker.spec, batch, generator, exact=asker.explained)
        points = start + (points - start) / 2**found.halvings
        answer = asker.ask(points)
        found.rounds += 1
        step = 2 if asker.unbounded else 1
        for i in range(0, batch, step):
            _visit(asker, line, found, start, points[i : i + step], answer[i : i + step], found.halvings)
            if found.deep:
                break
        watch(found.network)


def _look_at_extremes(
    asker: Asker,
    line: type[Line],
    found: Findings,
    start: Tensor,
    generator: torch.Generator,
    patience: int,
    max_lines: int,
) -> None:
    """Visits extremes of what the copy does and places where its units meet, again and again, until none surprises."""
    found.proved = patience == 0
    starts = start_points(asker.spec, min(patience // 2 + 1, _EXTREMES), generator)
    extremes = extreme_points(found.network.pieces, asker.spec, starts, generator)
    layer = Stack([Layer.of(found.network.normals, -found.network.offsets)])
    met = start + (meeting_points(layer, asker.spec, starts, generator, _FAR) - start) / 2**found.halvings
    points = torch.cat([extremes, met])
    if found.proved or asker.room(len(points)) < len(points):
        return
    answer = asker.ask(points)
    found.rounds += 1
    for _ in range(_SWEEPS):
        before, lines = (found.network.units, found.again), found.lines
        for i in range(len(points)):
            if found.deep or found.lines >= max_lines:
                return
            # where units meet rounding decides on which side gradients are taken: values must tell that one is missing
            if i < len(extremes) or bool(_off(asker, found, points[i : i + 1], answer[i : i + 1]) > 1):
                _visit(asker, line, found, start, points[i : i + 1], answer[i : i + 1], found.halvings)
        if (found.network.units, found.again) == before:
            # biases found far away are off by what rounding does there: no search explains that, and it is little
            off = _off(asker, found, points, answer)[answer.usable]
            found.proved = lines == found.lines or bool((off <= 1).all())
            break
    found.deep = not found.proved  # one hidden layer would have been learned by now


def _off(asker: Asker, found: Findings, x: Tensor, answer: Pieces) -> Tensor:
    """How far off the copy's values are at points, [n]; 1 is too far, 2 where a probability cannot be read."""
    size = answer.values.norm(dim=1) + asker.steepest * x.square().mean(1).sqrt()
    off = (answer.values - found.network(asker.rounded(x))).norm(dim=1) / (asker.eps**0.5 * size)
    return torch.where(answer.usable, off, 2.0)


def _begin(asker: Asker, generator: torch.Generator) -> tuple[Tensor, Pieces]:
    """A start point with its answer: of several candidates the one whose probabilities are easiest to read."""
    wanted = 1 if asker.view.kind == "logits" else _CANDIDATES
    drawn = start_points(asker.spec, max(1, asker.room(wanted)), generator)
    points = asker.baseline if asker.averaged else asker.rounded(drawn)
    answer = asker.ask(points)
    best = int(answer.size.argmin())
    if not bool(answer.usable[best]):
        raise Inconclusive("the victim's probabilities are 0 wherever it was asked; ask through a logits view")
    return points[best], answer[best : best + 1]


def _visit(
    asker: Asker,
    line: type[Line],
    found: Findings,
    start: Tensor,
    points: Tensor,
    answer: Pieces,
    halvings: int,
) -> None:
    """Learns what lies between the start and far points, or less far where probabilities cannot be read there."""
    if bool(answer.usable.all()):
        found.halvings = max(0, halvings - 1)
        way = line(asker, found.network, start, points[0], answer)
        if way.explained():
            found.quiet += len(points)
            found.vague += 0 if way.decisive() else len(points)
            return
        found.quiet = found.vague = 0
        found.lines += 1
        known = found.network.units
        try:
            found.rounds += way.explore()
        except SaturatedError:
            answer = answer.spoiled()
        else:
            found.ways = [*found.ways[-1:], way]
            found.again += way.again
            found.unfitted = 0 if way.fitted else found.unfitted + 1
            found.deep = found.unfitted > _UNFITTED or any(
                again > max(few, share * known)
                for again, (few, share) in ((way.again, _AGAIN), (found.again, _AGAIN_IN_ALL))
            )
            return
    for point, one in zip(points, answer.rows(), strict=True):
        if bool(one.usable):
            _visit(asker, line, found, start, point[None], one, halvings)
        elif halvings < _HALVINGS and asker.room(1):
            nearer = ((start + point) / 2)[None]
            _visit(asker, line, found, start, nearer, asker.ask(nearer), halvings + 1)
