"""A fitted scikit-learn classifier, or anything with its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from leakmeter.victims.spec import Outputs


def estimator_function(estimator: Any) -> tuple[Callable[[np.ndarray], np.ndarray], Outputs]:
    """`predict_proba` where there is one, else `predict` with labels numbered as in `classes_`."""
    if hasattr(estimator, "predict_proba"):
        return lambda x: np.asarray(estimator.predict_proba(x)), "probs"
    numbers = {name: number for number, name in enumerate(np.asarray(estimator.classes_).tolist())}
    return lambda x: np.array([numbers[name] for name in np.asarray(estimator.predict(x)).tolist()]), "labels"
