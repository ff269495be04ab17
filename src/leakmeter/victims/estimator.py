"""A fitted scikit-learn classifier, or anything with its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from leakmeter.victims.facts import Facts
from leakmeter.victims.function import FunctionVictim
from leakmeter.victims.kind import Request, VictimKind
from leakmeter.victims.spec import Outputs
from leakmeter.victims.victim import Victim


class EstimatorKind(VictimKind):
    """Objects that predict and know their classes."""

    form = "a fitted classifier"

    def takes(self, source: object) -> bool:
        """Whether it predicts classes that it knows."""
        return hasattr(source, "predict") and hasattr(source, "classes_")

    def open(self, source: Any, request: Request) -> Victim:
        """`predict_proba` where there is one, else `predict`, probed."""
        function, outputs = _function(source)
        names = tuple(source.classes_) if all(isinstance(name, str) for name in source.classes_) else None
        facts = request.facts.or_else(
            Facts(outputs=outputs, classes=len(source.classes_), dtype=torch.float64, class_names=names)
        )
        return facts.about(source).probed(lambda spec: FunctionVictim(function, spec))


def _function(estimator: Any) -> tuple[Callable[[np.ndarray], np.ndarray], Outputs]:
    """Labels are numbered as in `classes_`."""
    if hasattr(estimator, "predict_proba"):
        return lambda x: np.asarray(estimator.predict_proba(x)), "probs"
    numbers = {name: number for number, name in enumerate(np.asarray(estimator.classes_).tolist())}
    return lambda x: np.array([numbers[name] for name in np.asarray(estimator.predict(x)).tolist()]), "labels"
