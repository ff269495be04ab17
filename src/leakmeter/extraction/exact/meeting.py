"""Where surfaces of known units meet: a unit above them that is almost never on, or never off, shows there first.

Inside a cell such a unit is linear, so where it is on at all it is on at a corner of a cell, or far out on an edge that
has no end. A copy says where both are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.decompose import svd
from leakmeter.extraction.exact.extremes import bounds
from leakmeter.extraction.exact.stack import Stack
from leakmeter.victims.spec import VictimSpec

_NUMBERS = 2e7
"""Gradient components kept at once."""
_WORK = 1e9
"""Multiplications to spend at most; of large networks fewer corners are looked for."""
_INSIDE = 1e-3
"""A corner is asked so far inside its cell, as a share of the way: on the surfaces themselves rounding decides."""


def meeting_points(stack: Stack, spec: VictimSpec, starts: Tensor, generator: torch.Generator, far: float) -> Tensor:
    """Corners of cells around at most all `starts` [n, d], and points up to `far` out on edges without an end.

    In turn of the first layer's cells, of those of the first two layers, and so on: the layer above may lack a unit.
    """
    found = [starts[:0]]
    for height in range(1, len(stack.layers) + 1):
        part, x = Stack(stack.layers[:height]), starts[height - 1 :: len(stack.layers)]
        if not len(stack.layers[0].bias):
            break  # a linear model has no surface
        basis = _basis(part, spec)
        units = sum(len(layer.bias) for layer in part.layers) + (0 if spec.width is None else 2 * spec.features)
        most = max(1, int(_WORK / (units * basis.shape[1] * min(units, basis.shape[1]))))
        chunk = max(1, int(_NUMBERS / (units * basis.shape[1])))
        found += [_corners(part, spec, some, basis, generator, far) for some in torch.split(x[:most], chunk)]
    return spec.clamp(torch.cat(found).reshape(-1, *spec.input_shape)).flatten(1)


def _basis(stack: Stack, spec: VictimSpec) -> Tensor:
    """Orthonormal columns [d, r]: all directions in a box or below a wide layer, else those the first layer sees."""
    weight = stack.layers[0].weight
    if spec.width is not None or len(weight) >= weight.shape[1]:
        return torch.eye(weight.shape[1], dtype=weight.dtype)
    basis: Tensor = svd(weight)[2].T
    return basis


def _corners(
    stack: Stack, spec: VictimSpec, x: Tensor, basis: Tensor, generator: torch.Generator, far: float
) -> Tensor:
    """From each point in a random direction to a surface, in it to another, until none is ahead."""
    if spec.width is not None:
        low, high = bounds(spec)
        x = x + _INSIDE * ((low + high) / 2 - x)
    z, gradient = _cell(stack, spec, x, basis)
    rows, r, reach = torch.arange(len(x)), basis.shape[1], far * basis.shape[1] ** 0.5
    c, free = x.new_zeros(len(x), r), torch.eye(r, dtype=x.dtype).repeat(len(x), 1, 1)
    ahead, going = z != 0, torch.ones(len(x), dtype=torch.bool)
    flat = len(stack.layers) == 1
    aim = _aims(stack, gradient, generator) if spec.width is not None else None
    for step in range(r):
        drawn = torch.randn(len(x), r, 1, generator=generator, dtype=x.dtype)
        drawn = drawn if aim is None else torch.where(rows[:, None, None] % 2 == 0, drawn, aim)
        way = _unit((free @ drawn)[:, :, 0])
        rate = (gradient @ way[:, :, None])[:, :, 0]
        t = torch.where(ahead & (rate * z < 0), -z / rate, torch.inf)
        t, hit = _chosen(t, len(stack.layers[0].bias), reach, generator) if flat else t.min(1)
        out, edge = torch.rand(2, len(x), generator=generator, dtype=x.dtype)
        ends = (t < reach) & ((edge < 0.5) | (step < r - 1) | (spec.width is not None))
        t = going * torch.where(ends, t, reach * 100**-out)
        c, z = c + t[:, None] * way, z + t[:, None] * rate
        going &= ends
        if not bool(going.any()):
            break
        ahead[rows[going], hit[going]] = False
        normal = _unit((free @ gradient[rows, hit][:, :, None])[:, :, 0]) * going[:, None]
        free = free - normal[:, :, None] * normal[:, None]
    return x + (1 - _INSIDE) * c @ basis.T


def _aims(stack: Stack, gradient: Tensor, generator: torch.Generator) -> Tensor:
    """Random mixtures of what the last layer's units grow along, [n, r, 1].

    Units above see nothing else: of a box's many vertices these are the ones where it is extreme.
    """
    units, top = sum(len(layer.bias) for layer in stack.layers), len(stack.layers[-1].bias)
    mixture = torch.randn(len(gradient), 1, top, generator=generator, dtype=gradient.dtype)
    return (mixture @ gradient[:, units - top : units]).mT


def _chosen(t: Tensor, units: int, reach: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Any surface on the way: a first layer's go on behind each other; but none beyond a face of the box, [n] each."""
    face = torch.nn.functional.pad(t[:, units:], (0, 1), value=reach).amin(1, keepdim=True)
    open_to = t <= face
    chance = torch.rand(t.shape, generator=generator, dtype=t.dtype) * open_to
    hit = torch.where(open_to.any(1), chance.argmax(1), t.argmin(1))
    return t.gather(1, hit[:, None])[:, 0], hit


def _unit(x: Tensor) -> Tensor:
    unit: Tensor = x / x.norm(dim=1, keepdim=True).clamp(min=1e-300)
    return unit


def _cell(stack: Stack, spec: VictimSpec, x: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """What each unit compares with zero [n, H], and its gradient in the cell of x [n, H, r]; then a box's faces."""
    zs, gradients = [], []
    for height in range(1, len(stack.layers) + 1):
        z, gradient = Stack(stack.layers[:height]).slopes(x, basis)
        zs.append(torch.where(stack.layers[height - 1].linear, 0.0, z))
        gradients.append(gradient)
    if spec.width is not None:
        low, high = bounds(spec)
        face = basis.expand(len(x), -1, -1)
        zs += [x - low, high - x]
        gradients += [face, -face]
    return torch.cat(zs, 1), torch.cat(gradients, 1)
