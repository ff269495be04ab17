"""What a model's owner says of its preprocessing. Nothing heavy is imported here: a plan holds this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import field_validator

from leakmeter.settings import Settings, checked


class PreparationSettings(Settings):
    """What is done to a raw input before the model sees it, by turns resize, scale, mean and std, layout, dtype."""

    scale: float | None = None
    """Raw values are multiplied by this: 255 for a model of 0 to 255 whose users send 0 to 1."""
    mean: tuple[float, ...] | float | None = None
    """Subtracted after scaling, one number or one a channel."""
    std: tuple[float, ...] | float | None = None
    """Divided by after that."""
    layout: Literal["nchw", "nhwc"] | None = None
    """Whether the model takes pictures channels first or channels last; None: told by the shape."""
    resize: tuple[int, int] | None = None
    """Height and width that the model takes, where raw pictures have another size."""
    dtype: Literal["float16", "float32", "float64", "uint8", "int8", "int32", "int64"] | None = None
    """The numbers the model takes; raw values are rounded to whole ones for it."""

    @field_validator("resize", mode="before")
    @classmethod
    def _two_sides(cls, sides: Any) -> Any:
        if isinstance(sides, str) or not hasattr(sides, "__len__") or len(sides) != 2:
            raise ValueError("expected the height and the width that the model takes, such as [224, 224]")
        return sides


def make_preparation(given: Mapping[str, Any]) -> PreparationSettings:
    """The settings, or one sentence about the first thing wrong with them."""
    return checked(PreparationSettings, {key: value for key, value in given.items() if value is not None}, "the victim")
