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
    return _picture_of(getattr(source, "config", None)) if features is None else (int(features),)


def _picture_of(config: object) -> tuple[int, ...] | None:
    """What the configuration of a Hugging Face image classifier says of its pictures."""
    channels, size = getattr(config, "num_channels", None), getattr(config, "image_size", None)
    sides = (size, size) if isinstance(size, int) else tuple(size) if isinstance(size, list | tuple) else ()
    whole = [side for side in (channels, *sides) if isinstance(side, int) and side > 0]
    return tuple(whole) if len(whole) == 3 else None


def names_of(source: object) -> tuple[str, ...] | None:
    """What a network says its classes are called: itself, or in the configuration of a Hugging Face model."""
    said = declared(source, "class_names", tuple)
    labels = declared(getattr(source, "config", None), "id2label", dict)
    if said is not None or not labels or any(str(name).startswith("LABEL_") for name in labels.values()):
        return said  # type: ignore[no-any-return]
    return tuple(str(name) for _, name in sorted(labels.items()))


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
