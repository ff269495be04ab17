"""Any function from a float array to an array: user code, an ONNX session, a method of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from leakmeter.errors import UsageError
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
        if not np.issubdtype(outputs.dtype, np.number):
            raise TypeError(f"expected it to return numbers, got {outputs.dtype}")
        return from_array(outputs)


class FunctionKind(VictimKind):
    """Anything that can be called."""

    form = "a function"

    def takes(self, source: object) -> bool:
        """Whether it can be called."""
        return callable(source)

    def open(self, source: Any, request: Request) -> Victim:
        """The function, probed."""
        names = request.facts.class_names
        return request.facts.about(source).probed(
            lambda spec: FunctionVictim(_numbered(source, names), _named(source, spec))
        )


def _numbered(function: Callable[[np.ndarray], Any], names: tuple[str, ...] | None) -> Callable[[np.ndarray], Any]:
    """The function with words for classes as their numbers, in the order of `names`."""
    places = {name: number for number, name in enumerate(names or ())}

    def call(x: np.ndarray) -> np.ndarray:
        outputs = np.asarray(function(x))
        if outputs.dtype.kind not in "OU" or not all(isinstance(word, str) for word in outputs.flat):
            return outputs
        odd = next((word for word in outputs.flat if word not in places), None)
        if odd is not None:
            known = f"one of the classes {', '.join(places)}" if places else "numbers"
            raise UsageError(
                f"expected {known} as answers, got the word '{odd}'; "
                "pass the names, such as classes=['no', 'yes'], on the command line --classes no,yes"
            )
        return np.array([places[word] for word in outputs.flat]).reshape(outputs.shape)

    vars(call).update(notes=getattr(function, "notes", ()))
    return call


def _named(function: object, spec: VictimSpec) -> VictimSpec:
    """With the names that answers gave to the classes, where the owner gave none."""
    names = getattr(function, "class_names", None)
    return spec if spec.class_names or not names else replace(spec, class_names=names)
