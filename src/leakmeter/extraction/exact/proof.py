"""Puts a copy of several layers to the proof: fresh points of every kind that might hold a surprise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.extremes import extreme_points, vertices
from leakmeter.extraction.exact.meeting import meeting_points
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.probes import fresh_points, start_points, switching_points
from leakmeter.extraction.exact.stack import Stack
from leakmeter.victims.spec import VictimSpec

_CHUNK = 32
_STEPS = 2000
_HALVINGS = 24
_FAR = 100.0
_ALL_VERTICES, _FREE, _ROWS = 20, 1000, 2**16
_BESIDE = 1e-6
"""So near to a bend, as a share of the point's size, rounding decides on which side gradients are taken."""


def proof_points(known: Known, spec: VictimSpec, n: int, generator: torch.Generator, far: float) -> Tensor:
    """A third all over, a third where surfaces meet, a sixth at extremes, a sixth in every cell of a fresh line.

    Where units were never seen to switch, points at which they would are first.
    """
    some, few = math.ceil(n / 3), math.ceil(n / 6)
    fresh = fresh_points(known.stack, spec, some, generator, max(far, 1.0))
    met = meeting_points(known.stack, spec, start_points(spec, some, generator), generator, min(far, _FAR))
    extremes = extreme_points(known.pieces, spec, start_points(spec, few, generator), generator)
    cells = cells_of_a_line(known.stack, spec, few, generator)
    first = switching_points(known.stack, fresh, spec)
    return torch.cat([first, fresh[:_CHUNK], met, extremes, cells, fresh[_CHUNK:]])


def hard_points(stack: Stack, spec: VictimSpec, n: int, generator: torch.Generator) -> list[Tensor]:
    """For the owner, n points of each of several kinds: all over, near and far; and where the copy's surfaces meet.

    A hyperplane that cuts anything off a box cuts off a vertex, maybe one of a million: where nobody pays for answers,
    a box of few features is looked at in all of them.
    """
    scales = (0.3, 10.0, _FAR) if spec.width is None else (1.0,)
    found = []
    for scale in scales:
        starts = fresh_points(Stack([]), spec, n, generator, 1.0)
        starts = starts * scale if spec.width is None else starts
        found += [starts, meeting_points(stack, spec, starts, generator, max(scale, 1.0))]
    if spec.width is not None and spec.features <= _ALL_VERTICES and n >= _FREE:
        found += torch.split(vertices(spec), _ROWS)
    return [x for x in found if len(x)]


def within_sight(asker: Asker, known: Known, x: Tensor, start: Tensor) -> Tensor:
    """The points [n, d], moved towards `start` [d] where the copy says that a probability could not be read."""
    if asker.view.kind == "logits":
        return x
    for _ in range(_HALVINGS):
        x = torch.where(_readable(asker, known(x))[:, None] > 0, x, (x + start) / 2)
    return x


def cells_of_a_line(stack: Stack, spec: VictimSpec, n: int, generator: torch.Generator) -> Tensor:
    """The middles of at most n cells through which the copy says that a random line goes, the small ones as well."""
    origin, other = start_points(spec, 2, generator)
    angle = torch.linspace(0.0, 1.0, _STEPS, dtype=torch.float64)
    t = angle if spec.width is not None else torch.tan((angle - 0.5) * math.pi * 0.99)
    x = origin + t[:, None] * (other - origin)
    x = spec.clamp(x.reshape(-1, *spec.input_shape)).flatten(1)
    if not stack.layers:
        return x[:: max(1, _STEPS // n)]
    pattern = torch.cat([z > 0 for z in stack.inputs(x)], dim=1)
    edges = torch.nn.functional.pad((pattern[1:] != pattern[:-1]).any(1), (1, 1), value=True).nonzero()[:, 0]
    middles = (edges[1:] + edges[:-1]) // 2
    chosen = torch.randperm(len(middles), generator=generator)[:n]
    return x[middles[chosen]]


def surprises(asker: Asker, known: Known, x: Tensor, answer: Pieces, allowed: Tensor) -> Tensor:
    """How far off the copy is at each point, [n]; 1 is too far: in values, in gradients where they are shown."""
    off = (known(x) - answer.values).norm(dim=1) / allowed
    if answer.gradients is not None:
        parts = [known.pieces(rows)[1] for rows in torch.split(x, _CHUNK)]
        slopes = (torch.cat(parts) - answer.gradients).flatten(1).norm(dim=1) / (asker.eps**0.5 * asker.steepest)
        off = torch.maximum(off, torch.where(_beside_a_bend(known.stack, x), 0.0, slopes))
    # what the copy says can be read, and cannot, is a surprise; what it says cannot be read is none
    unread = 2.0 * _readable(asker, known(x))
    return torch.where(answer.usable, off, unread)


def _beside_a_bend(stack: Stack, x: Tensor) -> Tensor:
    """Where some unit is about to switch, [n]."""
    near, y = torch.zeros(len(x), dtype=torch.bool), x
    for layer, z in zip(stack.layers, stack.inputs(x), strict=True):
        size = y.norm(dim=1, keepdim=True) * layer.weight.norm(dim=1) + layer.bias.abs()
        near |= ((z.abs() <= _BESIDE * size) & ~layer.linear).any(1)
        y = layer.activate(z)
    return near


def _readable(asker: Asker, values: Tensor) -> Tensor:
    """Where all probabilities that the values mean are far above the smallest that can be read, [n]."""
    least = math.log(float(torch.finfo(asker.spec.dtype).tiny) / asker.eps)
    found: Tensor = torch.log_softmax(values @ asker.contrasts, dim=1).amin(1) > least / 2
    return found.to(values)
