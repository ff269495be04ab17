"""Follows one unit's surface across the hyperplanes of known units: each crossing tells one weight.

The way for layers in which more units are on than the input has directions: there no single bend tells a row. Where the
surface crosses the hyperplane of a known unit, its normal changes by that unit's weight times a known gradient,
whichever way the known unit faces. The normal keeps one scale all along, since that change is the only one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.extraction.exact.rows import pinned
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.survey import Survey
from leakmeter.extraction.exact.weights import Explore
from leakmeter.seeds import stream

_FAILURES = 3
"""Crossings at which the surface may not be where it should: beyond that it is no unit of this layer."""
_BEYOND = 1e-6
_STEEPEST = 10.0
"""The largest change of a normal to look for, against the normal."""
_HALVINGS = 14


@dataclass
class Followed:
    """A row of the layer above, up to one scale, with a place on its surface and the normal there."""

    weight: Tensor
    known: Tensor
    """Which weights are known, [h]: a surface may never cross some hyperplanes."""
    x: Tensor
    normal: Tensor

    def layer(self, below: Stack) -> Layer:
        """The unit, which is zero at its place."""
        scale = self.weight.norm().clamp(min=1e-300)
        bias = -(self.weight @ below.features(self.x[None])[0]) / scale
        return Layer.of((self.weight / scale)[None], bias[None], self.known[None])


@dataclass(frozen=True)
class _Step:
    """From the place along `r`: after `t` comes the first known hyperplane, after `following` the next."""

    r: Tensor
    t: float
    following: float
    unit: int
    """Counted through all layers."""


def follow(stack: Stack, x: Tensor, normal: Tensor, explore: Explore, tolerance: float) -> Followed | None:
    """The row of the unit that bends at x above the stack's last layer; None if it is not told or is no such unit.

    The last layer's units face the right way: coefficients of those that are on, if they are few enough, follow from
    the normal. A row may come back with some weights unknown.
    """
    walk = _Walk(stack, x, normal, tolerance)
    asked = failures = 0
    for _ in range(10 * len(walk.weight) + 20):
        if not walk.solve():
            return None
        step = None if bool(walk.known.all()) else walk.plan()
        if step is None or asked > 3 * len(walk.weight):
            break
        if walk.cross(step):
            continue
        asked += 1
        if not _asked(walk, step, explore):
            walk.banned.add(step.unit)
            failures += 1
        if failures >= _FAILURES:
            return None
    return walk.row()


def _asked(walk: _Walk, step: _Step, explore: Explore) -> bool:
    """Whether the surface goes on behind the hyperplane, as a short line across it shows."""
    segment = walk.segment(step)
    for careful in (False, True):
        survey = None if segment is None else explore(*segment, careful)
        if survey is None:
            return False
        if walk.learn(step, survey):
            return True
    return False


class _Walk:
    """A place on the surface, and what is known of the row."""

    def __init__(self, stack: Stack, x: Tensor, normal: Tensor, tolerance: float) -> None:
        self.stack, self.x, self.normal, self.tolerance = stack, x, normal, tolerance
        top = stack.layers[-1]
        self.weight = torch.zeros_like(top.bias)
        self.known = torch.zeros_like(top.linear)
        self.first = sum(len(layer.bias) for layer in stack.layers[:-1])
        """Units below the last layer."""
        self.bends = ~torch.cat([layer.linear for layer in stack.layers])
        self.banned: set[int] = set()
        self.generator = stream(0, "exact", "follow")

    def solve(self) -> bool:
        """Coefficients of units that are on, from the normal; False if it is no combination of their gradients."""
        z, gradient = (part[self.first :] for part in _slopes(self.stack, self.x))
        on = self.stack.layers[-1].on(z) > 0
        rest = self.normal - (self.weight * (on & self.known)) @ gradient
        new = on & ~self.known
        found, unique = pinned(gradient[new].T, rest, self.tolerance) if bool(new.any()) else (rest[:0], new[new])
        off = float((rest - found @ gradient[new]).norm() / self.normal.norm())
        if off > 10 * self.tolerance:
            return False
        rows = new.nonzero()[:, 0][unique]
        self.weight[rows], self.known[rows] = found[unique], True
        return True

    def row(self) -> Followed | None:
        """What is known, if that is all, or all that is on where the walk ended and half of the rest."""
        z = _slopes(self.stack, self.x)[0][self.first :]
        on = self.stack.layers[-1].on(z) > 0
        enough = bool(self.known.all()) or bool(self.known[on].all())
        if not enough or float(self.known.double().mean()) < 0.5:
            return None
        return Followed(self.weight, self.known, self.x, self.normal)

    def plan(self) -> _Step | None:
        """Straight to an unknown unit's hyperplane if one can be reached, else somewhere at random."""
        z, gradient = _slopes(self.stack, self.x)
        wanted = (~self.known).nonzero()[:, 0] + self.first
        aims = -torch.sign(z[wanted])[:, None] * gradient[wanted]
        chance = torch.randn(4, len(gradient), generator=self.generator, dtype=z.dtype) @ gradient
        steps = [self._first(self._tangent(r), z, gradient) for r in torch.cat([aims, chance])]
        open_to = {int(unit) for unit in wanted} - self.banned
        direct = [step for step in steps if step is not None and step.unit in open_to]
        if direct:
            return min(direct, key=lambda step: step.t * float(step.r.norm()))
        others = [step for step in steps if step is not None and step.unit not in self.banned]
        return others[int(torch.randint(len(others), (1,), generator=self.generator))] if others else None

    def _tangent(self, r: Tensor) -> Tensor:
        return r - self.normal * (self.normal @ r) / (self.normal @ self.normal)

    def _first(self, r: Tensor, z: Tensor, gradient: Tensor) -> _Step | None:
        rate = gradient @ r
        t = torch.where(self.bends & (rate * z < 0), -z / rate, torch.inf)
        order = t.argsort()[:2].tolist()
        if not bool(t[order[0]].isfinite()):
            return None
        following = float(t[order[1]]) if len(order) > 1 else 2 * float(t[order[0]])
        return _Step(r, float(t[order[0]]), min(following, 2 * float(t[order[0]]) + 1), order[0])

    def cross(self, step: _Step) -> bool:
        """Steps across a hyperplane behind which the normal is known already; False if it is not."""
        z, gradient = _slopes(self.stack, self.x)
        unit, edge = step.unit - self.first, self.x + step.t * step.r
        if unit < 0:
            normal = self._behind(edge + _BEYOND * (1 + edge.norm()) * step.r / step.r.norm())
        elif bool(self.known[unit]):
            side = 1.0 if float(z[step.unit]) < 0 else -1.0
            normal = self.normal + side * self.weight[unit] * gradient[step.unit]
        else:
            normal = None
        if normal is None:
            return False
        ahead = step.r - normal * (normal @ step.r) / (normal @ normal)
        if float(gradient[step.unit] @ ahead) * float(gradient[step.unit] @ step.r) <= 0:
            self.banned.add(step.unit)  # the surface turns back here
            return True
        self.x = edge + _BEYOND * (1 + edge.norm()) * ahead / ahead.norm()
        self.normal = normal
        self.banned.clear()
        return True

    def _behind(self, x: Tensor) -> Tensor | None:
        """The normal in the cell of x, if all weights are known that it depends on."""
        z, gradient = (part[self.first :] for part in _slopes(self.stack, x))
        on = self.stack.layers[-1].on(z)
        return (self.weight * on) @ gradient if bool(self.known[on > 0].all()) else None

    def segment(self, step: _Step) -> tuple[Tensor, Tensor] | None:
        """A short line (origin, along; -1 <= t <= 1) across the surface just behind a hyperplane, parallel to that."""
        gradient = _slopes(self.stack, self.x)[1][step.unit]
        q = self.normal - gradient * (gradient @ self.normal) / (gradient @ gradient)
        slope = float(q @ self.normal)
        if slope <= 1e-6 * float(self.normal @ self.normal):
            return None
        length = (step.following - step.t) / 8
        for _ in range(_HALVINGS):
            origin = self.x + (step.t + length) * step.r
            shift = abs(length * float(gradient @ step.r)) * float(self.normal.norm() / gradient.norm()) / slope
            along = _STEEPEST * shift * q
            sides = [
                torch.cat([z[0] > 0 for z in self.stack.inputs(p[None])]) for p in (origin + along, origin - along)
            ]
            here = torch.cat([z[0] > 0 for z in self.stack.inputs(origin[None])])
            if all(torch.equal(side, here) for side in sides):
                return origin, along
            length /= 4
        return None

    def learn(self, step: _Step, survey: Survey) -> bool:
        """The new normal, and the weight of the unit whose hyperplane was crossed; False if there is no such bend."""
        z, gradient = _slopes(self.stack, self.x)
        side = 1.0 if float(z[step.unit]) < 0 else -1.0
        for i in range(len(survey.t)):
            left = torch.stack([survey.normals[i], -side * gradient[step.unit]], dim=1)
            scale, weight = torch.linalg.lstsq(left, self.normal[:, None]).solution[:, 0]
            normal = scale * survey.normals[i]
            off = float((left @ torch.stack([scale, weight]) - self.normal).norm() / self.normal.norm())
            # the surface must be where that weight moves it
            x = survey.points[i]
            moved = float(normal @ (x - self.x - step.t * step.r)) / float(normal.norm() * survey.along.norm())
            if off <= self.tolerance + 30 * float(survey.error[i]) and abs(moved) <= 1e-3:
                self.x, self.normal = x, normal
                if step.unit >= self.first:
                    self.weight[step.unit - self.first], self.known[step.unit - self.first] = weight, True
                self.banned.clear()
                return True
        return False


def _slopes(stack: Stack, x: Tensor) -> tuple[Tensor, Tensor]:
    """What all units of all layers compare with zero at x, [H], and their gradients, [H, d]."""
    zs, gradients, passed = [], [], torch.zeros(0)
    y = x
    for i, layer in enumerate(stack.layers):
        z = layer.weight @ y + layer.bias
        gradient = layer.weight if i == 0 else layer.weight @ passed
        zs.append(z)
        gradients.append(gradient)
        passed, y = layer.on(z)[:, None] * gradient, layer.activate(z)
    return torch.cat(zs), torch.cat(gradients)
