"""What the builders check about the shape of one input."""

from __future__ import annotations

from leakmeter.errors import UsageError


def image_shape(shape: tuple[int, ...], name: str, *, least: int = 1) -> tuple[int, int, int]:
    """`shape` as (channels, height, width); `name` is what needs images of at least `least` pixels a side."""
    if len(shape) != 3 or min(shape) < 1:
        raise UsageError(f"'{name}' works on images: expected a shape (channels, height, width), got {shape}")
    channels, height, width = shape
    if min(height, width) < least:
        raise UsageError(
            f"'{name}' needs images of at least {least}x{least} pixels, got {height}x{width}; "
            "enlarge the images or choose mlp"
        )
    return channels, height, width
