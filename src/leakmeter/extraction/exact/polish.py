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

_STEPS = 25
_IN_VAIN, _CLOSE = 6, 6.0
"""Steps in a row that gain next to nothing, after which it ends; two are enough where most values are explained."""
_MOST = 3000
"""Unknowns, beyond which the equations do not pay."""
_SLACK = 30.0
"""Rounding is taken to be at most so many times what one operation does."""
_FRESH, _TRIES = 64, 4
_TWIN = 1e-2
MISFITS = 0.03
"""The share of values that may be off by more than that: what was asked where a unit switches that no line met."""


def polish(asker: Asker, network: OneHidden) -> float:
    """Fits all unknowns (in place), without units that do not help; the share of the values it leaves unexplained."""
    _fit(asker, network)
    left = unexplained(asker, network)
    before = [part.clone() for part in network.buffers()]
    while left <= MISFITS and merge(network):
        _fit(asker, network)
        now = unexplained(asker, network)
        if now > MISFITS:
            network.restore(before)
            break
        left, before = now, [part.clone() for part in network.buffers()]
    return left


def merge(network: OneHidden) -> bool:
    """Makes the two units one whose hyperplanes are closest, or drops one of next to no weight; False if none is."""
    size = network.weights.norm(dim=0)
    cosine = (network.normals @ network.normals.T).fill_diagonal_(0)
    apart = (network.offsets[:, None] - torch.sign(cosine) * network.offsets).abs()
    # hyperplanes found twice: the lighter one was fitted to what the other lacked
    twin = (cosine.abs() > 1 - _TWIN**2 / 2) & (apart < _TWIN * (1 + network.offsets.abs()))
    lighter = twin & (size[:, None] <= size)
    drop = lighter.any(1) & ~(lighter & lighter.T).triu(1).any(1)
    drop |= size < _TWIN * float(size.median())
    if not bool(drop.any()):
        return False
    for i in drop.nonzero()[:, 0].tolist():
        pair = (lighter[i] & ~drop).nonzero()[:, 0].tolist()
        if pair:
            j = pair[0]
            network.weights[:, j] += network.weights[:, i]
            if float(cosine[i, j]) < 0:  # relu(-z) = relu(z) - z
                network.skip += network.weights[:, i : i + 1] * network.normals[i]
                network.shift -= network.weights[:, i] * network.offsets[i]
    network.restore(
        [network.skip, network.shift, network.normals[~drop], network.offsets[~drop], network.weights[:, ~drop]]
    )
    return True


def unexplained(asker: Asker, network: OneHidden, batches: slice = slice(None)) -> float:
    """The share of the values asked that are off by more than rounding; all of them where they are too few to tell."""
    x, values = (torch.cat(column) for column in zip(*asker.asked[batches], strict=True))
    off = (values - network(x)).norm(dim=1) / _rounding(asker, x, values)
    unknowns, told = (sum(part.numel() for part in parts) for parts in (network.buffers(), (v for _, v in asker.asked)))
    return float((off > _SLACK).double().mean()) if told >= 1.2 * unknowns else 1.0


def _fit(asker: Asker, network: OneHidden) -> None:
    """Gauss-Newton steps on all unknowns (in place).

    What is far off counts less, as by Cauchy's likelihood: one cell measured wrongly must not bend all the others.
    """
    unknowns = sum(part.numel() for part in network.buffers())
    if not asker.asked or network.units == 0 or unknowns > _MOST:
        return
    x, values = (torch.cat(column) for column in zip(*asker.asked, strict=True))
    weight = 1 / _rounding(asker, x, values)
    damping, vain = 1e-6, 0
    for _ in range(_STEPS):
        off = (values - network(x)) * weight[:, None]
        size = off.norm(dim=1)
        usual = 3 * float(size.median()) + 3
        trust = 1 / (1 + (size / usual).square()).sqrt()
        change = _step(network, x, off * trust[:, None], weight * trust, damping)
        before, cost = [part.clone() for part in network.buffers()], _cauchy(size, usual)
        _move(network, change)
        now = _cauchy(((values - network(x)) * weight[:, None]).norm(dim=1), usual)
        damping = max(damping * 0.1, 1e-9) if now < cost else damping * 30
        vain = 0 if now < 0.99 * cost else vain + 1
        if not now < cost:
            network.restore(before)
        if vain == (_IN_VAIN if usual > _CLOSE else 2):
            break


def _cauchy(size: Tensor, usual: float) -> float:
    return float((usual**2 * torch.log1p((size / usual).square())).mean())


def holds(asker: Asker, network: OneHidden, generator: torch.Generator) -> bool:
    """Whether the copy predicts fresh points up to rounding; those that it does not are learned, and others asked."""
    for _ in range(_TRIES):
        if asker.room(2 * _FRESH) < 2 * _FRESH:
            return False
        if _predicts(asker, network, generator):
            return True
        polish(asker, network)
    return False


def _predicts(asker: Asker, network: OneHidden, generator: torch.Generator) -> bool:
    """Whether fresh points, near and far, are as the copy says, and could have shown otherwise."""
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
    network.restore([new[0], new[1], new[2] / length[:, None], new[3] / length, new[4] * length])
