"""The explanation in a server's own answers, as maps of the input's shape; whatever else it is, said in a sentence."""

from __future__ import annotations

import math

import numpy as np

from leakmeter.errors import UsageError
from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.remote.client import BadAnswer, Unexplained
from leakmeter.victims.spec import VictimSpec


def check_own(own: OwnExplanation, spec: VictimSpec) -> OwnExplanation:
    """The same, if a model of this spec can be explained so."""
    if own.of == "second" and spec.classes != 2:
        raise UsageError(f"expected a model of two classes for an explanation of the second, got {spec.classes}")
    return own


def said(own: OwnExplanation) -> str:
    """What the report says of it."""
    whose = {"all": "of every class", "label": "of the class named", "second": "of the second class"}[own.of]
    return f"the explanation {own.kind}, {whose}, is read from '{own.field}' of the server's own answers"


def conform_maps(maps: np.ndarray, rows: int, own: OwnExplanation, spec: VictimSpec) -> np.ndarray:
    """The maps as [rows, classes or 1, *input_shape]; the first of two classes is explained by what speaks against."""
    each = spec.classes if own.of == "all" else 1
    wanted = (rows, *([each] if own.of == "all" else []), *spec.input_shape)
    if len(maps.shape) == 0 or len(maps) != rows or maps.size != rows * each * math.prod(spec.input_shape):
        raise Unexplained(f"its explanation had the shape {maps.shape} instead of {wanted}")
    if not np.isfinite(maps).all():
        raise BadAnswer("its explanation held NaN or infinity")
    found = maps.reshape(rows, each, *spec.input_shape).astype(np.float64)
    return np.concatenate([-found, found], 1) if own.of == "second" else found
