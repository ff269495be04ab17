"""Whether a first layer that was found is a convolution: rows that are one small patch, moved over the picture."""

from __future__ import annotations

from torch import Tensor

from leakmeter.extraction.exact.stack import Layer

_NOTHING = 1e-4
"""A share of a row's largest weight below which a weight is none."""
_SAME = 1e-3
"""How far off two kernels, and their biases, may be that are the same, as a share of their size."""


def convolution(layer: Layer, shape: tuple[int, ...]) -> str | None:
    """What of a layer's units [h, d] is a convolution over inputs of such a shape, in a sentence; None if nothing is.

    Rows at the rim of a padded picture are cut off there, and count as other ones.
    """
    units = layer[~layer.linear]
    if len(shape) != 3 or min(shape[1:]) < 2 or units.units < 2:
        return None
    kernels: list[tuple[Tensor, float]] = []
    counts: list[int] = []
    for row, bias in zip(units.weight, units.bias, strict=True):
        kernel = _kernel(row, bias, shape)
        same = [k for k, known in enumerate(kernels) if _alike(known, kernel)]
        if same:
            counts[same[0]] += 1
        else:
            kernels.append(kernel)
            counts.append(1)
    moved = [(kernel, count) for kernel, count in zip(kernels, counts, strict=True) if count > 1]
    rows = sum(count for _, count in moved)
    if 2 * rows < units.units or 2 * len(moved) > rows:
        return None
    sizes = sorted({"x".join(str(n) for n in kernel[0].shape) for kernel, _ in moved})
    return (
        f"{rows} of {units.units} units of the first layer share the weights of {len(moved)} kernels "
        f"({' and '.join(sizes)}), moved over the picture"
    )


def _kernel(row: Tensor, bias: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, float]:
    """The part of a row that is not zero, and its bias, divided by the largest weight: units may face either way."""
    picture = row.reshape(shape)
    seen = (picture.abs() > _NOTHING * row.abs().max()).any(0)
    high, wide = (seen.any(axis).nonzero()[:, 0] for axis in (1, 0))
    patch = picture[:, int(high[0]) : int(high[-1]) + 1, int(wide[0]) : int(wide[-1]) + 1]
    lead = patch.flatten()[patch.abs().argmax()]
    return patch / lead, float(bias / lead)


def _alike(one: tuple[Tensor, float], other: tuple[Tensor, float]) -> bool:
    if one[0].shape != other[0].shape or abs(one[1] - other[1]) > _SAME * (1 + abs(one[1])):
        return False
    return bool((one[0] - other[0]).norm() <= _SAME * one[0].norm())
