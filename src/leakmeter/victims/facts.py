"""What is known of a victim: said by its owner, then by the object itself, then by one small probe.

What is still unknown is asked for by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.box import Box
from leakmeter.data.columns import Columns
from leakmeter.errors import UsageError, all_at_once, first_line
from leakmeter.files import check_announced
from leakmeter.registry import did_you_mean
from leakmeter.victims.answers import no_rows
from leakmeter.victims.bounds import UNSAID, Bound, edge_of
from leakmeter.victims.declared import declared, dtype_of, names_of, shape_of
from leakmeter.victims.drawn import SOME, tells_apart
from leakmeter.victims.preparation import Preparation, PreparedVictim, settle
from leakmeter.victims.preparation_settings import PreparationSettings
from leakmeter.victims.probe import LABELS_UNCOUNTED, SIGN_DECIDES, advice, check_score, classes_of, outputs_of
from leakmeter.victims.spec import OUTPUTS, VictimSpec
from leakmeter.victims.usual_range import UNIT, picture_shape, usual_ranges
from leakmeter.victims.victim import Question, Victim

Build = Callable[[VictimSpec], Victim]


@dataclass(frozen=True)
class Facts:
    """What a `VictimSpec` says, as far as it is known; None, for a bound UNSAID: not yet."""

    input_shape: Sequence[int] | None = None
    low: Bound = UNSAID
    high: Bound = UNSAID
    classes: int | None = None
    outputs: str | None = None
    dtype: torch.dtype | None = None
    name: str | None = None
    columns: Columns | None = None
    class_names: tuple[str, ...] | None = None
    model_shape: Sequence[Any] | None = None
    """The shape that the model itself declares, a side that it leaves open as None."""
    preparation: PreparationSettings | None = None
    assumed: tuple[Any, Any] | None = None
    """The range to take where nobody says one."""
    assumed_from: str | None = None
    """Where that is from; None: the test data."""
    whole: bool | None = None
    """Whether the model takes whole numbers only, of which no range is usual."""
    notes: tuple[str, ...] = ()
    """What the report must say of what was assumed."""

    def or_else(self, other: Facts) -> Facts:
        """These facts, and those of `other` where nothing is known."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        known = {name: value for name, value in given.items() if value is not (UNSAID if name in _BOUNDS else None)}
        return replace(other, **known)

    def about(self, source: object) -> Facts:
        """These facts, and what an object says of itself where nothing is known."""
        said = Facts(
            model_shape=getattr(source, "input_shape", None) or shape_of(source),
            low=getattr(source, "low", UNSAID),
            high=getattr(source, "high", UNSAID),
            classes=declared(source, "classes", int),
            outputs=declared(source, "outputs", str),
            dtype=dtype_of(source),
            name=declared(source, "name", str) or type(source).__name__,
            class_names=names_of(source),
            assumed=declared(source, "assumed", tuple),
            assumed_from=declared(source, "assumed_from", str) if self.assumed is None else None,
            whole=declared(source, "whole", bool),
        )
        return self.or_else(said)

    def probed(self, build: Build) -> Victim:
        """The victim, after some rows have shown what it returns, in a usual range of inputs where nobody says one."""
        if not self.guesses:
            return self._assuming()._answering(build)
        for usual in self.guesses:
            facts = replace(self, assumed=usual, assumed_from=_USUAL if usual == UNIT else _TELLING)
            victim = facts._assuming()._answering(build)
            if tells_apart(victim):
                return victim
        tried = " or ".join(f"{low:g} to {high:g}" for low, high in self.guesses)
        raise self._unsaid(f"; of {SOME} inputs drawn in {tried} all got the same label")

    def _answering(self, build: Build) -> Victim:
        """The victim, after four rows."""
        all_at_once(self._preparation, lambda: self._check_told_at_once(build))
        preparation = self._preparation()
        draft, build = self._draft(preparation.raw), self._prepared(build, preparation)
        answer = self._probe(build(draft), draft)
        outputs: Any = self.outputs or outputs_of(answer)
        spec = self._named(replace(draft, classes=classes_of(answer, outputs, self.classes), outputs=outputs))
        sign = spec.classes == 1 and self.outputs is None and self.classes != 1
        if sign:
            check_score(answer)
        victim = build(spec)
        victim.notes = (*victim.notes, SIGN_DECIDES) if sign else victim.notes
        return victim

    def trusted(self, build: Build) -> Victim:
        """Without a probe: a remote victim's answers are counted, and before there is a ledger none is asked for."""
        facts = self._assuming()
        all_at_once(facts._check_answers, facts._preparation, facts.check_range)
        preparation = facts._preparation()
        return facts._prepared(build, preparation)(facts._named(facts._draft(preparation.raw)))

    def _assuming(self) -> Facts:
        """With the assumed range where nobody said one, and a note that says so."""
        unsaid = [side for side in _BOUNDS if getattr(self, side) is UNSAID]
        if self.assumed is None or not unsaid or self.columns is not None:
            return self
        bounds: dict[str, Any] = {
            side: edge for side, edge in zip(_BOUNDS, self.assumed, strict=True) if side in unsaid
        }
        low, high = (f"{float(pick(edge)):g}" for pick, edge in zip((np.min, np.max), self.assumed, strict=True))
        note = (
            f"Nobody said what range of inputs the model takes: it was taken to be {low} to {high}, "
            f"{self.assumed_from or 'that of the test data'}; if that is wrong, so is this audit: set low and high."
        )
        return replace(self, **bounds, notes=(*self.notes, note))

    @property
    def guesses(self) -> tuple[tuple[float, float], ...]:
        """Usual ranges to try; none where somebody says one or a shift of it, and none of whole numbers is usual."""
        said = [side for side in _BOUNDS if getattr(self, side) is not UNSAID]
        prepared = self.preparation is not None and (self.preparation.scale, self.preparation.dtype) != (None, None)
        known = said or prepared or self.whole or self.assumed is not None or self.columns is not None
        return () if known else usual_ranges(self._sides)

    @property
    def likely(self) -> bool:
        """Whether the first guess is as good as certain: that of pictures."""
        return bool(self.guesses) and picture_shape(self._sides) is not None

    @property
    def _sides(self) -> Sequence[Any] | None:
        return self.model_shape if self.input_shape is None else self.input_shape

    def _check_answers(self) -> None:
        if self.outputs is None or self.classes is None:
            raise UsageError(
                "the server does not say what its model returns; pass outputs ('logits', 'probs' or 'labels') and "
                "classes, such as outputs='probs', classes=10, on the command line --outputs probs --classes 10"
            )

    def check_range(self) -> None:
        """Asks for the range of inputs where nobody has said it."""
        missing = [side for side in _BOUNDS if getattr(self, side) is UNSAID]
        if missing and self.columns is None and self.assumed is None:
            raise self._unsaid()

    def _check_told_at_once(self, build: Build) -> None:
        """Asks for the range, and for the number of labels with it, which is known as soon as the model answers."""
        uncounted = ""
        if any(getattr(self, side) is UNSAID for side in _BOUNDS) and self.columns is None:
            with suppress(Exception):
                unit = replace(self, low=UNIT[0], high=UNIT[1])
                draft = unit._draft(unit._preparation().raw)
                answer = unit._probe(unit._prepared(build, unit._preparation())(draft), draft)
                if (self.outputs or outputs_of(answer)) == "labels" and self.classes is None:
                    uncounted = LABELS_UNCOUNTED
        all_at_once(self.check_range, lambda: _raise(uncounted))

    def _unsaid(self, why: str = "") -> UsageError:
        missing = [side for side in _BOUNDS if getattr(self, side) is UNSAID]
        low, high = (-128, 128) if why else (0, 255 if self.whole else 1)
        return UsageError(
            f"the range of the inputs cannot be read off this victim; pass {' and '.join(missing)}, for example "
            f"low={low}.0, high={high}.0 (None: unbounded), on the command line --low={low} --high={high}; test data "
            f"(--data) say it, too{why}"
        )

    def _preparation(self) -> Preparation:
        settings = self.preparation or PreparationSettings()
        return settle(self._shape(), self.model_shape, settings)

    def _prepared(self, build: Build, preparation: Preparation) -> Build:
        def prepared(spec: VictimSpec) -> Victim:
            victim = build(preparation.model_spec(spec)) if preparation.needed else build(spec)
            victim = PreparedVictim(spec, victim, preparation) if preparation.needed else victim
            victim.notes = (*victim.notes, *self.notes)
            return victim

        return prepared

    def _named(self, spec: VictimSpec) -> VictimSpec:
        if self.class_names and len(self.class_names) != max(2, spec.classes):
            raise UsageError(
                f"expected a name for each of {max(2, spec.classes)} classes, got {len(self.class_names)}: "
                f"{', '.join(self.class_names[:12])}"
            )
        return replace(spec, class_names=self.class_names or ())

    def _draft(self, shape: tuple[int, ...]) -> VictimSpec:
        if self.outputs is not None and self.outputs not in OUTPUTS:
            raise UsageError(
                f"expected outputs to be one of {', '.join(OUTPUTS)}, got '{self.outputs}'"
                f"{did_you_mean(str(self.outputs), OUTPUTS)}"
            )
        if self.classes is not None and self.classes < 1:
            raise UsageError(f"expected classes to be at least 1, got {self.classes}")
        outputs: Any = self.outputs or "logits"
        dtype = self.dtype or torch.float32
        if self.columns is not None and shape != (len(self.columns),):
            raise UsageError(
                f"expected as many columns as the model has inputs, {' x '.join(map(str, shape))}, got "
                f"{len(self.columns)}: {', '.join(self.columns.names[:12])}; name the target, or leave columns out"
            )
        check_announced(f"an input and an output of {self.name}", 8 * (math.prod(shape) + (self.classes or 0)))
        box = self._box(shape, dtype)
        return VictimSpec(str(self.name), shape, box, self.classes or 2, outputs, dtype, self.columns)

    def _shape(self) -> tuple[int, ...] | None:
        """What the owner says; None: what the model declares is enough."""
        if self.input_shape is None and self.columns is not None and self.model_shape is None:
            return (len(self.columns),)
        if self.input_shape is None:
            if self.model_shape is not None and all(isinstance(side, int) for side in self.model_shape):
                return None
            raise UsageError(
                "the shape of one input cannot be read off this victim; pass input_shape=(1, 28, 28), "
                "on the command line --input-shape 1,28,28"
            )
        try:
            shape = tuple(operator.index(side) for side in self.input_shape)
        except TypeError as error:
            raise UsageError(f"expected input_shape to hold whole numbers, got {self.input_shape!r}") from error
        if not shape or any(side < 1 for side in shape):
            raise UsageError(f"expected input_shape to hold sizes of at least 1, got {shape}")
        return shape

    def _box(self, shape: tuple[int, ...], dtype: torch.dtype) -> Box:
        if self.columns is not None:
            return Box.around(torch.empty(0, dtype=dtype), self.columns.low, self.columns.high)
        self.check_range()
        return Box.around(torch.empty(0, dtype=dtype), *(edge_of(side, getattr(self, side), shape) for side in _BOUNDS))

    def _probe(self, victim: Victim, draft: VictimSpec) -> Tensor:
        points = draft.sample(4, torch.Generator().manual_seed(0))
        try:
            with torch.no_grad():
                answer = victim.compute(points, Question(torch.Generator()))
        except UsageError:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            raise UsageError(
                f"the victim raised {type(error).__name__} on a probe of shape {tuple(points.shape)}: "
                f"{first_line(error)}; {advice(error, draft)}"
            ) from error
        if not isinstance(answer, Tensor) or answer.dim() not in (1, 2) or len(answer) != len(points):
            raise no_rows(len(points), answer)
        if answer.dtype.is_floating_point and not torch.isfinite(answer).all():
            raise UsageError("the victim answered a probe with NaN or infinity; check its weights and the input box")
        return answer


_BOUNDS = ("low", "high")
_USUAL = "what is usual for pictures"
_TELLING = "the first usual range in which the model tells inputs apart that were drawn by chance"
AROUND = "column by column around the thresholds of its trees"
"""Where the range of a model of trees is from, if nobody says one."""


def _raise(sentence: str) -> None:
    if sentence:
        raise UsageError(sentence)
