"""Fits a copy of one hidden layer to all values asked at once.

In single precision a gradient made from differences is good to three digits or four, and errors add up from cell to
cell. All values together tell every weight to nearly the precision of a value.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.probes import far_points, start_points

_STEPS = 12
_MOST = 3000
"""Unknowns, beyond which the equations do not pay."""
_SLACK = 30.0
"""Rounding is taken to be at most so many times what one operation does."""
_FRESH = 64


def polish(asker: Asker, network: OneHidden) -> bool:
    """Gauss-Newton steps on all unknowns (in place); whether there were values enough to tell them."""
    unknowns = sum(part.numel() for part in network.buffers())
    if not asker.asked or network.units == 0 or unknowns > _MOST:
        return False
    x, values = (torch.cat(column) for column in zip(*asker.asked, strict=True))
    weight = 1 / _rounding(asker, x, values)
    damping = 1e-6
    for _ in range(_STEPS):
        off = (values - network(x)) * weight[:, None]
        change = _step(network, x, off, weight, damping)
        before = [part.clone() for part in network.buffers()]
        _move(network, change)
        better = float(((values - network(x)) * weight[:, None]).square().mean()) < float(off.square().mean())
        damping = max(damping * 0.1, 1e-10) if better else damping * 100
        if not better:
            _restore(network, before)
    return values.numel() >= 1.2 * unknowns


def holds(asker: Asker, network: OneHidden, generator: torch.Generator) -> bool:
    """Whether the copy predicts fresh points, near and far, up to rounding, and they could have shown otherwise."""
    if asker.room(2 * _FRESH) < 2 * _FRESH:
        return False
    near = start_points(asker.spec, _FRESH, generator)
    far = far_points(near[0], asker.spec, _FRESH, generator, exact=False)
    x = asker.rounded(torch.cat([near, far]))
    answer = asker.ask(x)
    off, allowed = (answer.values - network(x)).norm(dim=1), _SLACK * _rounding(asker, x, answer.values)
    spread = answer.values[:_FRESH].std(dim=0).norm()
    telling = bool((allowed[:_FRESH] <= 0.01 * spread).all())
    return telling and bool((off[answer.usable] <= allowed[answer.usable]).all())


def _rounding(asker: Asker, x: Tensor, values: Tensor) -> Tensor:
    """What one operation does to a value, [n]."""
    size: Tensor = asker.eps * (values.norm(dim=1) + asker.steepest * x.square().mean(1).sqrt())
    return size.clamp(min=1e-300)


def _step(network: OneHidden, x: Tensor, off: Tensor, weight: Tensor, damping: float) -> Tensor:
    """The change of all unknowns, in the order of the buffers, that takes most of `off` [n, C] away."""
    gram, right = torch.zeros(0), torch.zeros(0)
    for output in range(off.shape[1]):
        rows = _slopes(network, x, output) * weight[:, None]
        gram = rows.T @ rows if output == 0 else gram + rows.T @ rows
        right = rows.T @ off[:, output] if output == 0 else right + rows.T @ off[:, output]
    scale = gram.diagonal().clamp(min=1e-300).sqrt()
    even = gram / scale / scale[:, None] + damping * torch.eye(len(gram), dtype=gram.dtype)
    change: Tensor = torch.linalg.solve(even, right / scale) / scale
    return change


def _slopes(network: OneHidden, x: Tensor, output: int) -> Tensor:
    """How one output changes with every unknown, [n, unknowns]: skip, shift, normals, offsets, weights."""
    z, n = network.hidden(x), len(x)
    passed = (z > 0) * network.weights[output]
    skip, shift = (torch.zeros(n, *part.shape, dtype=x.dtype) for part in (network.skip, network.shift))
    weights = torch.zeros(n, *network.weights.shape, dtype=x.dtype)
    skip[:, output], shift[:, output], weights[:, output] = x, 1.0, torch.relu(z)
    normals = passed[:, :, None] * x[:, None]
    return torch.cat([part.flatten(1) for part in (skip, shift, normals, -passed, weights)], dim=1)


def _move(network: OneHidden, change: Tensor) -> None:
    parts = [network.skip, network.shift, network.normals, network.offsets, network.weights]
    pieces = torch.split(change, [part.numel() for part in parts])
    new = [part + piece.reshape(part.shape) for part, piece in zip(parts, pieces, strict=True)]
    length = new[2].norm(dim=1).clamp(min=1e-300)
    _restore(network, [new[0], new[1], new[2] / length[:, None], new[3] / length, new[4] * length])


def _restore(network: OneHidden, parts: list[Tensor]) -> None:
    network.skip, network.shift, network.normals, network.offsets, network.weights = parts
