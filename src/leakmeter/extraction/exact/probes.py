"""Where to look for hidden units: far away along lines in open space, all over the box inside one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import DOUBLE
from leakmeter.extraction.exact.extremes import bounds
from leakmeter.extraction.exact.stack import Stack
from leakmeter.extraction.sources import SOURCES
from leakmeter.victims.spec import VictimSpec

_PAIRS = 1024


def start_points(spec: VictimSpec, n: int, generator: torch.Generator) -> Tensor:
    """Random points to begin at, [n, d]: a different brightness each in a box, standard normal in open space."""
    if spec.width is None:
        return spec.sample(n, generator).double().flatten(1)
    return _scattered(spec, n, generator)


def is_picture(spec: VictimSpec) -> bool:
    """Whether inputs have the shape of a picture."""
    return len(spec.input_shape) == 3 and min(spec.input_shape[1:]) >= 8 and spec.input_shape[0] in (1, 3)


def drawn_point(spec: VictimSpec, generator: torch.Generator) -> Tensor:
    """A picture in a box, [d]: a drawing, something written or, as often, some specks on black.

    Units of networks that learned pictures on black are mostly off in brighter ones.
    """
    kind = int(torch.randint(3, (1,), generator=generator))
    if kind < 2:
        drawing: Tensor = SOURCES[("drawings", "glyphs")[kind]](1, spec, generator).double().flatten()
        return drawing
    (low, high), share = bounds(spec), 10 ** (-3 * float(torch.rand((), generator=generator)))
    bright, drawn = torch.rand(2, spec.features, generator=generator, dtype=torch.float64)
    specks: Tensor = low + (high - low) * bright * (drawn < share)
    return specks


def steered_point(spec: VictimSpec, rows: Tensor, generator: torch.Generator) -> Tensor:
    """The vertex of a box to which a random mixture of some of the rows [h, d] leads, few or many, [d].

    Units above see nothing else of a point, so there they switch that random points leave as they are. Without rows
    it is any vertex.
    """
    low, high = bounds(spec)
    rows = rows if len(rows) else torch.randn(1, spec.features, generator=generator, dtype=rows.dtype)
    share = len(rows) ** -float(torch.rand((), generator=generator))
    some = torch.rand(len(rows), generator=generator) < share
    some[int(torch.randint(len(rows), (1,), generator=generator))] = True
    mixture = torch.randn(len(rows), generator=generator, dtype=rows.dtype) * some
    return torch.where(mixture @ rows > 0, high, low)


def telling_pair(stack: Stack, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
    """Two of the points [n, d] on whose way most weights show that are not known; None where none does.

    A weight shows where its unit switches while the unit below is on, and of the first layer a unit is on all the way
    between two places where it is on.
    """
    i, j = torch.randint(len(x), (2, _PAIRS), generator=generator)
    shown = x.new_zeros(_PAIRS)
    ends = [stack.inputs(x[rows]) for rows in (i, j)]
    for height, layer in enumerate(stack.layers[1:], 1):
        below, above = ([z[height - lower] > 0 for z in ends] for lower in (1, 0))
        both = (below[0] & below[1]) | stack.layers[height - 1].linear
        shown += (((above[0] != above[1]).to(x) @ (~layer.known).to(x)) * both).sum(1)
    best = int(shown.argmax())
    return (x[i[best]], x[j[best]]) if float(shown[best]) > 0 else None


def far_points(start: Tensor, spec: VictimSpec, n: int, generator: torch.Generator, *, exact: bool) -> Tensor:
    """Points whose segment from `start` crosses many hyperplanes, [n, d].

    In open space they come in opposite pairs so far out that almost every hyperplane lies on the way (Lemma 3: a
    share of 2 / (pi reach) does not), yet near enough for the arithmetic to tell small bends from rounding.
    """
    if spec.width is not None:
        return _scattered(spec, n, generator)
    ahead = reach(spec, exact=exact) * torch.randn(
        math.ceil(n / 2), len(start), dtype=torch.float64, generator=generator
    )
    points = start + torch.stack([ahead, -ahead], dim=1).flatten(0, 1)[:n]
    return spec.clamp(points.reshape(-1, *spec.input_shape)).flatten(1)


def reach(spec: VictimSpec, *, exact: bool) -> float:
    """How far to go in open space, in standard deviations: 1.6e5 in float64 and 200 in float32.

    Less far (90 and 24) where gradients are made from values and not exact: their errors grow with the distance.
    """
    eps = float(torch.finfo(spec.dtype).eps)
    return float(eps ** (-1 / 3 if exact else -1 / 8 if eps < DOUBLE else -1 / 5))


def fresh_points(stack: Stack, spec: VictimSpec, n: int, generator: torch.Generator, far: float) -> Tensor:
    """Points to check a copy at, [n, d]: all over a box; near, less near and up to `far` in open space.

    At every second one few units of the first layer are on: that switches units above which are otherwise always on,
    or never.
    """
    if spec.width is not None:
        points = _scattered(spec, n, generator)
    else:
        scale = 10.0 ** torch.randint(0, 3, (n, 1), generator=generator, dtype=torch.float64)
        points = scale.clamp(max=far) * torch.randn(n, spec.features, generator=generator, dtype=torch.float64)
    if stack.layers:
        first = stack.layers[0]
        share = torch.rand(n, 1, generator=generator, dtype=torch.float64) ** 3
        draw = torch.rand(n, len(first.bias), generator=generator, dtype=torch.float64)
        size = torch.addmm(first.bias, points, first.weight.T).abs()
        target = torch.where(draw < share, size, -size)
        sparse = points + (target - torch.addmm(first.bias, points, first.weight.T)) @ torch.linalg.pinv(first.weight).T
        points = torch.where(torch.arange(n)[:, None] % 2 == 0, points, sparse)
    return spec.clamp(points.reshape(-1, *spec.input_shape)).flatten(1)


def switching_points(stack: Stack, starts: Tensor, spec: VictimSpec, steps: int = 30) -> Tensor:
    """Points where units that were never seen to switch are far to one side, and to the other, if there are any.

    Such a unit is known as a linear function only. Walking down its slope leads to where it would switch.
    """
    found = []
    linear = stack.layers[-1].linear.nonzero()[:, 0].tolist() if stack.layers else []
    for unit in linear:
        for side in (1.0, -1.0):
            x = starts[:4].clone()
            for step in range(steps):
                slope = stack.slopes(x)[1][:, unit]
                length = starts[:4].norm(dim=1, keepdim=True) * 2.0 ** (step / 10) / steps
                x = x + side * length * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300)
                x = spec.clamp(x.reshape(-1, *spec.input_shape)).flatten(1)
            found.append(x)
    return torch.cat(found) if found else starts[:0]


def _scattered(spec: VictimSpec, n: int, generator: torch.Generator) -> Tensor:
    """Points all over a box: a share of the features, few or all, drawn anew on an even background.

    Few features reach hyperplanes that cut off the corners with little or much of everything, where images live;
    extreme values reach those that cut off the other corners.
    """
    d, (low, high) = spec.features, bounds(spec)
    drawn = torch.rand(n, d, generator=generator, dtype=torch.float64)
    density, shade, kind, share = torch.rand(4, n, 1, generator=generator, dtype=torch.float64)
    values = torch.where(kind < 0.5, drawn, (drawn < density).double())
    touched = torch.rand(n, d, generator=generator, dtype=torch.float64) < d ** torch.clamp(-2 * share + 1, max=0)
    return low + (high - low) * torch.where(touched, values, (3 * shade).floor() / 2)
