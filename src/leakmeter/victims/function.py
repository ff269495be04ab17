"""Any function from a float array to an array: user code, an ONNX session, a method of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.victims.answers import chosen, columns_of, is_maps
from leakmeter.victims.kind import Request, VictimKind
from leakmeter.victims.spec import VictimSpec, from_array
from leakmeter.victims.victim import Question, Victim


class FunctionVictim(Victim):
    """Calls the function on numpy arrays."""

    batch = 4096

    def __init__(self, function: Callable[[np.ndarray], Any], spec: VictimSpec) -> None:
        super().__init__(spec)
        self._function = function
        self.notes = tuple(getattr(function, "notes", ()))
        self.trees = getattr(function, "trees", None)

    def compute(self, x: Tensor, question: Question) -> Tensor:  # noqa: ARG002
        """The numbers it returns."""
        outputs = np.asarray(self._function(x.detach().cpu().numpy()))
        if outputs.dtype.kind not in "iufb":
            raise UsageError(f"expected the victim to return numbers, got {_kind(outputs)}")
        if outputs.dtype == bool and outputs.size != len(outputs):
            outputs = outputs.astype(np.float32)  # one column a class, true in one
        return from_array(outputs)


class FunctionKind(VictimKind):
    """Anything that can be called."""

    form = "a function"
    ends = ("output",)

    def takes(self, source: object) -> bool:
        """Whether it can be called."""
        return callable(source)

    def open(self, source: Any, request: Request) -> Victim:
        """The function, probed."""
        reading = _Reading(source, request.ends.output, request.facts.class_names)
        return request.facts.about(source).probed(lambda spec: FunctionVictim(reading, reading.named(spec)))


class _Reading:
    """The function, with what it returns read as numbers: one of several outputs, maps, words for classes."""

    def __init__(
        self, function: Callable[[np.ndarray], Any], output: str | None, names: tuple[str, ...] | None
    ) -> None:
        self._function, self._output = function, output
        self._places = {name: number for number, name in enumerate(names or ())}
        self._columns: tuple[str, ...] | None = None
        self.trees = getattr(function, "trees", None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the report must say of how it is asked, known after the first call."""
        return tuple(getattr(self._function, "notes", ()))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        answer = chosen(self._function(x), self._output)
        if is_maps(answer):
            answer, self._columns = columns_of(answer)
        if answer is None:
            raise UsageError("expected the function to return numbers, got None")
        outputs = np.asarray(answer)
        if outputs.dtype.kind not in "OU" or not all(isinstance(word, str) for word in outputs.flat):
            return outputs
        odd = next((word for word in outputs.flat if word not in self._places), None)
        if odd is not None:
            known = f"one of the classes {', '.join(self._places)}" if self._places else "numbers"
            raise UsageError(
                f"expected {known} as answers, got the word '{odd}'; "
                "pass the names, such as classes=['no', 'yes'], on the command line --classes no,yes"
            )
        return np.array([self._places[word] for word in outputs.flat]).reshape(outputs.shape)

    def named(self, spec: VictimSpec) -> VictimSpec:
        """With the names that answers gave to the classes, where the owner gave none."""
        names = self._columns or getattr(self._function, "class_names", None)
        return spec if spec.class_names or not names else replace(spec, class_names=names)


def _kind(outputs: np.ndarray) -> str:
    """What they are in words that somebody who wrote the function knows."""
    first = next(iter(outputs.flat), None) if outputs.dtype == object else None
    return str(outputs.dtype) if first is None else type(first).__name__
