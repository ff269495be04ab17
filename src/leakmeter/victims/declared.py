"""What a model says of itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def shape_of(source: object) -> tuple[int, ...] | None:
    """The shape of its inputs, where its first layer or its fit says it."""
    if isinstance(source, nn.Sequential) and len(source) and isinstance(source[0], nn.Linear):
        return (source[0].in_features,)
    if isinstance(source, nn.Linear):
        return (source.in_features,)
    features = getattr(source, "n_features_in_", None) or None  # a CatBoost model from a file says 0
    return None if features is None else (int(features),)


def dtype_of(source: object) -> torch.dtype | None:
    """The floats it computes with."""
    declared = getattr(source, "dtype", None)
    if isinstance(declared, torch.dtype):
        return declared
    first = next(source.parameters(), None) if isinstance(source, nn.Module) else None
    return first.dtype if first is not None and first.dtype.is_floating_point else None


def declared(source: object, name: str, kind: type) -> Any:
    """What the object says of itself, unless its attribute of that name is something else: `classes` may be names."""
    value = getattr(source, name, None)
    return value if isinstance(value, kind) else None
