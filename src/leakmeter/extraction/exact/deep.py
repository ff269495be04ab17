"""Surveys lines and reads layers from them until fresh points hold no surprise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.bank import Bank, cells_of
from leakmeter.extraction.exact.boundary import find_boundary
from leakmeter.extraction.exact.extremes import bounds
from leakmeter.extraction.exact.fresh import Answers, lines_shown
from leakmeter.extraction.exact.kinks import CrowdedError
from leakmeter.extraction.exact.line import SaturatedError
from leakmeter.extraction.exact.output import Known, regress
from leakmeter.extraction.exact.outward import in_part
from leakmeter.extraction.exact.peel import Peeler
from leakmeter.extraction.exact.probes import (
    drawn_point,
    is_picture,
    reach,
    start_points,
    steered_point,
    telling_pair,
)
from leakmeter.extraction.exact.proof import proof_points, surprises, within_sight
from leakmeter.extraction.exact.stack import Stack
from leakmeter.extraction.exact.survey import Survey, Surveyor
from leakmeter.extraction.exact.weights import Precision

_FIRST = 4
"""Lines before anything is read from them: a unit must be met on two."""
_LINES = 24
"""Lines that are always searched before it is given up."""
_TRIES = 12
_BENDS = 4000
"""So many that no unit explains can be compared with each other in memory."""
_ANYWHERE = 0.25
"""The share of a line's ends in a box that are anywhere in it."""
_DRAWN = 0.5
"""The share that is drawn, if inputs are pictures."""
_TELLING = 0.5
"""The share of lines in a box that are laid where weights show."""


@dataclass
class Progress:
    """How far the search came."""

    lines: int = 0
    quiet: int = 0
    done: bool = False
    """The copy explains everything asked, and as many fresh points as were wanted."""
    crowded: bool = False
    unexplained: int = 0
    """Bends that no unit of the copy explains."""


class DeepSearch:
    """Everything asked so far, and what to ask next."""

    def __init__(self, asker: Asker, surveyor: Surveyor, generator: torch.Generator) -> None:
        self.asker, self.surveyor, self.generator = asker, surveyor, generator
        self.surveys: list[Survey] = []
        self.progress = Progress()
        self.drawn = asker.spec.width is not None and is_picture(asker.spec)
        """Whether lines may begin and end at drawings: all over their box victims of pictures are often constant."""
        self.halvings = 0
        self.mended: list[int] | None = None
        """Units in each layer of the copy that was mended last."""
        self.most = self.grew = 0
        """The most units any copy had, and from how many lines."""
        self.known: Known | None = None
        """The copy that was read last, if it has a layer."""
        self.fullest: Known | None = None
        """The copy with most weights known: where none is whole, the rest is learned beside these."""
        self.peeler = Peeler(self.across, lambda: list(self.surveys), Precision.of(asker), bounds(asker.spec))

    def take(self, surveys: list[Survey]) -> None:
        """Lines that were searched before it was known that there are several layers."""
        self.surveys += surveys

    def in_part(self) -> Known | None:
        """The fullest copy, to learn what it lacks."""
        return self.fullest and in_part(self.fullest, self.surveys, self.peeler.precision.tolerance)

    def shown(self) -> Answers:
        """What lines showed, to learn from."""
        return lines_shown(self.surveys, self.asker, self.generator)

    def missing(self) -> str | None:
        """What is known to be missing from the copy, in a sentence."""
        if self.progress.crowded:
            return "a line bends more often than can be kept track of: the victim is no fully connected ReLU network"
        if self.progress.done:
            return None
        left = f"{self.progress.unexplained} bends on {self.progress.lines} lines are not explained by the layers found"
        if self.asker.room(8) < 8:
            return f"the budget ended: {left}"
        return f"{left}; the victim has layers of another kind, or wider ones than were told apart"

    def run(self, patience: int, max_lines: int) -> Known | None:
        """The copy, as far as it came; None if no layer was found."""
        known: Known | None = None
        best: Known | None = None
        try:
            while self._lines() < min(_FIRST, max_lines) and self.asker.room(8) == 8:
                self.line()
            while self.surveys:
                known, x, off = self.read()
                if known is not None and (best is None or not self.closer(best, known)):
                    best = known
                if not self._improve(known, x, off, patience, max_lines):
                    break
        except CrowdedError:
            self.progress.crowded = True
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            self.progress.done = False  # a decomposition that does not converge: what was found before stands
        self.progress.lines = self._lines()
        known = known if self.progress.done else best
        self.progress.unexplained = 0 if known is None else len(known.open)
        return known

    def _improve(self, known: Known | None, x: Tensor, off: Tensor, patience: int, max_lines: int) -> bool:
        """Asks for what the copy lacks; False if nothing is left to ask."""
        if known is not None and float(off.max()) <= 1:
            with self.asker.whole_budget():
                points, misses = self.verify(known, patience)
            if self.progress.done or not len(misses):
                return False
            x, off = torch.cat([x, points]), torch.cat([off, misses])
        if self.asker.room(8) < 8:
            return False
        units = None if known is None else [layer.units for layer in known.stack.layers]
        fresh, self.mended = units != self.mended, units  # twice at the same copy is in vain
        if known is not None and fresh and float((off <= 1).double().mean()) > 0.5 and self.mend(known, x, off):
            return True
        if self._lines() >= max_lines or not self._worthwhile(sum(units or [])):
            return False
        return self._more_lines(known, max_lines)

    def _worthwhile(self, units: int) -> bool:
        """Whether more lines may show more: the copy grew by the later half of them, or they are few."""
        if units > self.most:
            self.most, self.grew = units, self._lines()
        return self._lines() < max(_LINES, 2 * self.grew)

    def _more_lines(self, known: Known | None, max_lines: int) -> bool:
        """One more line in open space, twice as many in a box, where a line meets few of the units."""
        left = [] if known is None else list(known.open)
        before = self._lines()
        wanted = 1 if self.asker.spec.width is None else before
        for _ in range(min(wanted, max_lines - before)):
            chosen = int(torch.randint(max(1, len(left)), (1,), generator=self.generator))
            if len(left) > _BENDS:
                break
            if not self.line(left[chosen] if len(left) and self._lines() % 2 else None):
                break
        return self._lines() > before

    def _far(self) -> float:
        return reach(self.asker.spec, exact=self.asker.explained) / float(2**self.halvings)

    def _lines(self) -> int:
        return sum(not survey.short for survey in self.surveys)

    def line(self, through: Tensor | None = None) -> bool:
        """Surveys one more line, less far where probabilities cannot be read; False if none could be."""
        spec = self.asker.spec
        for halvings in range(_TRIES):
            if spec.width is not None:
                origin, away = self._ends(through)
                along, ends = (away - origin) / 2**halvings, (0.0, 1.0)
            else:
                far, origin = self._far(), self._place() if through is None else through
                along, ends = torch.randn(self.asker.d, dtype=torch.float64, generator=self.generator), (-far, far)
            if self.asker.room(8) < 8:
                return False
            try:
                self.surveys.append(self.surveyor(self.asker, origin, along, ends, False, None, False))
            except SaturatedError:
                self.halvings += 1
                continue
            return True
        return False

    def _ends(self, through: Tensor | None) -> tuple[Tensor, Tensor]:
        """Where a line in a box begins and ends."""
        pair = None
        if through is None and self.known is not None and float(torch.rand((), generator=self.generator)) < _TELLING:
            pair = telling_pair(self.known.stack, cells_of(self.surveys)[0], self.generator)
        return pair or (self._place() if through is None else through, self._place())

    def _place(self) -> Tensor:
        """Where a line begins or, in a box, ends: anywhere, or where units of some layer lead from a known place."""
        spec, known = self.asker.spec, self.known
        draw = float(torch.rand((), generator=self.generator))
        if self.drawn and draw > 1 - _DRAWN:
            return drawn_point(spec, self.generator)
        if known is None or spec.width is None or draw < _ANYWHERE:
            return start_points(spec, 1, self.generator)[0]
        known_places = [survey.origin for survey in self.surveys if not survey.short]
        start = known_places[int(torch.randint(len(known_places), (1,), generator=self.generator))]
        height = int(torch.randint(len(known.stack.layers), (1,), generator=self.generator)) + 1
        rows = Stack(known.stack.layers[:height]).slopes(start[None])[1][0]
        return within_sight(self.asker, known, steered_point(spec, rows, self.generator)[None], start)[0]

    def across(self, origin: Tensor, along: Tensor, careful: bool) -> Survey | None:
        """A short line across one unit's surface; `careful` the second time it is asked for, or at once."""
        if self.asker.room(8) < 8:
            return None
        known = None
        if careful and self.surveys[-1].origin is origin:
            if not self.asker.explained:
                return self.surveys[-1]  # values are never trusted
            known = self.surveys.pop().cells
        tips = torch.stack([origin + along, origin - along])
        if not torch.equal(self.asker.spec.clamp(tips.reshape(-1, *self.asker.spec.input_shape)).flatten(1), tips):
            return None
        try:
            survey = self.surveyor(self.asker, origin, along, (-1.0, 1.0), True, known, not careful)
        except SaturatedError:
            return None
        self.surveys.append(survey)
        return survey

    def read(self) -> tuple[Known | None, Tensor, Tensor]:
        """The copy that all lines together show; every point asked, and how far off the copy is there (1: too far)."""
        reading = self.peeler.read()
        x, cells = cells_of(self.surveys)
        if not len(x):  # the budget ended before any cell was known
            return None, x, x.new_empty(0)
        known = regress(reading.stack, x, cells)
        self.known = known if known.stack.layers else None
        if self.fullest is None or known.weights_known >= self.fullest.weights_known:
            self.fullest = known
        known.open = Bank(list(self.surveys)).x[: len(reading.open)][reading.open]
        off = self.off(known, x, cells.f)
        return known, x, off

    def closer(self, one: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor]) -> bool:
        """Whether one copy is mostly closer than the other to what was asked."""
        x, cells = cells_of(self.surveys)
        off = [(copy(x) - cells.f).norm(dim=1) for copy in (one, other)]
        return float((off[0] < off[1]).double().mean()) > 0.5

    def off(self, known: Known, x: Tensor, values: Tensor) -> Tensor:
        """How far off the copy is, against what is allowed."""
        off: Tensor = (known(x) - values).norm(dim=1) / self.allowed(x, values)
        return off

    def allowed(self, x: Tensor, values: Tensor) -> Tensor:
        """How far off a copy may be that is exact."""
        size: Tensor = self.asker.eps**0.5 * (values.norm(dim=1) + self.asker.steepest * x.square().mean(1).sqrt())
        return size

    def verify(self, known: Known, patience: int) -> tuple[Tensor, Tensor]:
        """Asks points never asked before until one surprises; returns the last ones and how far off they were."""
        self.progress.quiet = 0
        fresh = proof_points(known, self.asker.spec, patience, self.generator, self._far())
        fresh = within_sight(self.asker, known, fresh, self.surveys[0].origin)
        points, misses = fresh[:0], torch.zeros(0)
        while self.progress.quiet < len(fresh):
            batch = self.asker.room(min(max(16, self.progress.quiet), len(fresh) - self.progress.quiet))
            if batch == 0:
                return points, misses
            points = self.asker.rounded(fresh[self.progress.quiet : self.progress.quiet + batch])
            answer = self.asker.ask(points)
            misses = surprises(self.asker, known, points, answer, self.allowed(points, answer.values))
            if bool((misses > 1).any()):
                return points[answer.usable], misses[answer.usable]
            self.progress.quiet += batch
        self.progress.done = True
        return points, misses

    def mend(self, known: Known, x: Tensor, off: Tensor) -> bool:
        """Looks on the way to the nearest point that the copy does not explain for where it stops explaining."""
        bad = x[torch.where(off > 1, x.norm(dim=1), torch.inf).argmin()]
        distance = (x - bad).norm(dim=1)
        good = x[torch.where(off <= 1, distance, torch.inf).argmin()]
        if self.asker.explained:
            place = find_boundary(self.asker, known.pieces, good, bad, self.allowed)
            return place is not None and self.across(*place, True) is not None
        try:
            way = self.surveyor(self.asker, good, bad - good, (0.0, 1.0), False, None, False)
            self.surveys.append(
                replace(way, short=True)
            )  # laid on purpose: it says nothing about how often units are met
        except SaturatedError:
            return False
        return True
