"""A fitted scikit-learn classifier, or anything with its methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from leakmeter.data.columns import Column, Columns
from leakmeter.errors import UsageError, missing_extra
from leakmeter.models.trees.ensemble import TreeEnsemble
from leakmeter.models.trees.from_sklearn import from_sklearn
from leakmeter.models.trees.thresholds import threshold_box
from leakmeter.victims.facts import AROUND, Facts
from leakmeter.victims.function import FunctionVictim
from leakmeter.victims.kind import Request, VictimKind
from leakmeter.victims.spec import Outputs
from leakmeter.victims.victim import Victim


class EstimatorKind(VictimKind):
    """Objects that predict and know their classes."""

    form = "a fitted classifier"

    def takes(self, source: object) -> bool:
        """Whether it is fitted and predicts."""
        return hasattr(source, "predict") and (hasattr(source, "classes_") or hasattr(source, "n_features_in_"))

    def open(self, source: Any, request: Request) -> Victim:
        """`predict_proba` where there is one, else `predict`, probed."""
        if not hasattr(source, "classes_"):
            raise UsageError(
                f"expected a classifier, got {type(source).__name__}, which knows no classes; a regression model has "
                "none to copy, so cut its answers into classes in a function"
            )
        function, outputs = _function(source)
        columns, trees, fitted_on = request.facts.columns, _trees(source), fitted_names(source)
        if columns is not None and fitted_on is not None:
            function, trees = framed(function, columns, fitted_on), None
        names = tuple(source.classes_) if all(isinstance(name, str) for name in source.classes_) else None
        said = Facts(outputs=outputs, classes=len(source.classes_), dtype=torch.float64, class_names=names)
        if trees is not None and request.facts.assumed is None:
            said = replace(said, assumed=threshold_box(trees, source.n_features_in_), assumed_from=AROUND)
        facts = request.facts.or_else(said)
        victim = facts.about(source).probed(lambda spec: FunctionVictim(function, spec))
        if isinstance(victim, FunctionVictim):
            victim.trees = trees
        return victim


def fitted_names(estimator: Any) -> list[str] | None:
    """The columns of the data frame it was fitted on; None: it was fitted on numbers without names."""
    names = list(getattr(estimator, "feature_names_in_", getattr(estimator, "feature_names_", ())))
    return names if names and names != [str(place) for place in range(len(names))] else None


def _trees(estimator: Any) -> TreeEnsemble | None:
    """The estimator as an ensemble of trees, where it is one that scikit-learn grew."""
    try:
        return from_sklearn(estimator)
    except (UsageError, AttributeError, KeyError, ValueError, TypeError):
        return None


def _function(estimator: Any) -> tuple[Callable[[np.ndarray], np.ndarray], Outputs]:
    """Labels are numbered as in `classes_`."""
    if hasattr(estimator, "predict_proba"):
        return lambda x: np.asarray(estimator.predict_proba(x)), "probs"
    numbers = {name: number for number, name in enumerate(np.asarray(estimator.classes_).tolist())}
    return lambda x: np.array([numbers[name] for name in np.asarray(estimator.predict(x)).tolist()]), "labels"


def framed(
    function: Callable[[Any], np.ndarray], columns: Columns, names: list[str]
) -> Callable[[np.ndarray], np.ndarray]:
    """The function on rows of numbers, for a model that was fitted on a data frame: it gets one like that."""
    try:
        import pandas
    except ImportError as error:
        raise missing_extra("pandas", "tables") from error
    if set(names) != set(columns.names):
        odd = next(name for name in (*columns.names, *names) if (name in names) != (name in columns.names))
        raise UsageError(
            f"expected the columns the model was fitted on, {', '.join(names[:12])}, got a difference at '{odd}'; "
            "mend [columns], or name the target (target = in [data], --target-column)"
        )

    def call(x: np.ndarray) -> np.ndarray:
        held = {column.name: _owners(x[:, place], column) for place, column in enumerate(columns)}
        return function(pandas.DataFrame({name: held[name] for name in names}))

    return call


def _owners(values: np.ndarray, column: Column) -> Any:
    """A column as its owner holds it: words, whole numbers or numbers."""
    absent = np.isnan(values)
    if column.words:
        words = np.array([*column.levels, None], dtype=object)
        return words[np.where(absent, len(column.levels), values).astype(int)]
    return values if column.kind == "numeric" or bool(absent.any()) else values.astype(np.int64)
