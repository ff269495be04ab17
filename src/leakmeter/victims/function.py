"""Any function from a float array to an array: user code, an ONNX session, a method of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

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
        return request.facts.about(source).probed(lambda spec: FunctionVictim(source, _named(source, spec)))


def _named(function: object, spec: VictimSpec) -> VictimSpec:
    """With the names that answers gave to the classes, where the owner gave none."""
    names = getattr(function, "class_names", None)
    return spec if spec.class_names or not names else replace(spec, class_names=names)
