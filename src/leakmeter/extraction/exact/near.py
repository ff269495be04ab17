"""Fits the offsets of a copy of one hidden layer to values near where inputs usually lie.

A unit that a line crossed far away has its offset from there: what its row is off by counts as many times as the
place is far. A few values for each unit, all of them fitted together, tell the offsets where they matter.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.probes import start_points

_EACH, _LEAST = 2, 32
"""Random points for each unit, and how many at least; and two at its own hyperplane."""
_HELD_OUT = 4
"""One of so many is not fitted, and judges."""


def settle(asker: Asker, network: OneHidden, generator: torch.Generator) -> None:
    """Moves offsets (in place) to where values near the start want them, if values not fitted agree better then."""
    n = max(_LEAST, _EACH * network.units)
    if network.units == 0 or asker.room(n + 2 * network.units) < n + 2 * network.units:
        return
    x = start_points(asker.spec, n, generator)
    beside = x[: network.units] - network.hidden(x[: network.units]).diagonal()[:, None] * network.normals
    x = asker.rounded(torch.cat([x, beside + network.normals, beside - network.normals]))
    answer = asker.ask(x)
    x, values = x[answer.usable], answer.values[answer.usable]
    off = values - network(x)
    judge = torch.arange(len(x)) % _HELD_OUT == 0
    slopes = _slopes(network, x[~judge])
    change = torch.linalg.lstsq(slopes, off[~judge].flatten()[:, None], driver="gelsd").solution[:, 0]
    before = [part.clone() for part in network.buffers()]
    network.shift = network.shift + change[: asker.outputs]
    network.offsets = network.offsets + change[asker.outputs :]
    if not bool((values - network(x))[judge].norm() < off[judge].norm()):
        network.restore(before)


def _slopes(network: OneHidden, x: Tensor) -> Tensor:
    """How all values, [n * C], change with the shift and the offsets, [n * C, C + h]."""
    on = (network.hidden(x) > 0).to(x)
    offsets = -on[:, None] * network.weights
    shift = torch.eye(len(network.shift), dtype=x.dtype).expand(len(x), -1, -1)
    return torch.cat([shift, offsets], dim=2).flatten(0, 1)
