"""Fits all numbers of a whole copy of several layers to fresh values, by Gauss-Newton steps.

Where gradients are made from differences of values, rounding counts as many times as the steps were short, and what a
row is off by goes on into all layers above. A value at a fresh point is off by its own rounding only. Twice as many of
them as there are unknowns tell every row, offset and weight to nearly that precision.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.deep import DeepSearch
from leakmeter.extraction.exact.meeting import meeting_points
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.probes import fresh_points
from leakmeter.extraction.exact.proof import within_sight
from leakmeter.extraction.exact.stack import Stack

_MOST = 5000
"""Unknowns, beyond which the equations do not pay."""
_EQUATIONS = 2.0
"""Values asked for each unknown."""
_POOL = 16
"""So many times as many points are drawn as are asked."""
_HELD_OUT = 5
"""One of so many points is not fitted, and judges."""
_STEPS, _BETTER = 5, 0.7
_TRIES = 8
_FAR = 100.0
_DAMPING = 1e-12
"""Each unit's row may be scaled as one likes: directions in which nothing changes are not moved in."""


def refine(search: DeepSearch, known: Known | None, patience: int, max_lines: int) -> Known | None:
    """A copy that the search calls done, fitted; where the values asked for that surprise, the search goes on first.

    So a unit that is on at one point of a thousand is seen here, and not left to the owner to find.
    """
    for _ in range(_TRIES):
        if known is None or not search.progress.done:
            break
        found = _fresh(search, known)
        if found is None:
            break
        x, values = found
        off = search.off(known, x, values)
        if bool((off <= 1).all()):
            return fit(search.asker, known, x, values)
        search.progress.done = False
        if not search.mend(known, x, off):
            break
        known = search.run(patience, max_lines)
    return known


def _fresh(search: DeepSearch, known: Known) -> tuple[Tensor, Tensor] | None:
    """Points, half of them where surfaces meet, and values there; None if they are too many.

    The others are chosen so that units which are rarely on, or rarely off, are so at as many points as others.
    """
    asker, generator = search.asker, search.generator
    n = int(_EQUATIONS * len(_numbers(known)) / asker.outputs) + 1
    if len(_numbers(known)) > _MOST or asker.room(n) < n:
        return None
    starts = fresh_points(Stack([]), asker.spec, n // 2, generator, 1.0)
    if asker.spec.width is None:
        starts = starts * 10.0 ** torch.randint(0, 3, (len(starts), 1), generator=generator)
    met = meeting_points(known.stack, asker.spec, starts, generator, _FAR)
    pool = fresh_points(known.stack, asker.spec, _POOL * n, generator, _FAR)
    on = torch.cat([z > 0 for z in known.stack.inputs(pool)], dim=1)
    share = on.double().mean(0)
    rare = (1 / torch.where(on, share, 1 - share)).amax(1)
    fresh = torch.cat([met, pool[torch.multinomial(rare, n - len(met), generator=generator)]])
    x = asker.rounded(within_sight(asker, known, fresh, search.surveys[0].origin))
    answer = asker.ask(x)
    return x[answer.usable], answer.values[answer.usable]


def fit(asker: Asker, known: Known, x: Tensor, values: Tensor) -> Known:
    """The copy after as many steps as bring it closer to values that are not fitted; as it is where none does."""
    weight = 1 / (values.norm(dim=1) + asker.steepest * x.square().mean(1).sqrt()).clamp(min=1e-300)
    judge = torch.arange(len(x)) % _HELD_OUT == 0
    if int((~judge).sum()) * asker.outputs < len(_numbers(known)):
        return known

    def missed(copy: Known) -> float:
        return float(((values - copy(x))[judge] * weight[judge, None]).norm())

    best, least = known, missed(known)
    for _ in range(_STEPS):
        tried = _moved(best, _step(best, x[~judge], values[~judge], weight[~judge]))
        now = missed(tried)
        if not now < least:
            break
        best, least, before = tried, now, least
        if now > _BETTER * before:
            break
    return best


def _step(known: Known, x: Tensor, values: Tensor, weight: Tensor) -> Tensor:
    """The change of all numbers that takes most of what the copy misses away."""
    off = (values - known(x)) * weight[:, None]
    gram, right = torch.zeros(()), torch.zeros(())
    for output in range(off.shape[1]):
        rows = _slopes(known, x, output) * weight[:, None]
        gram, right = gram + rows.T @ rows, right + rows.T @ off[:, output]
    scale = gram.diagonal().clamp(min=1e-300).sqrt()
    even = gram / scale / scale[:, None]
    even.diagonal().add_(_DAMPING)
    change: Tensor = torch.linalg.solve(even, right / scale) / scale
    return change


def _slopes(known: Known, x: Tensor, output: int) -> Tensor:
    """How one output changes with every number, [n, unknowns]: rows and biases of each layer, weights and biases."""
    zs, layers, n = known.stack.inputs(x), known.stack.layers, len(x)
    ys = [x, *(layer.activate(z) for layer, z in zip(layers, zs, strict=True))]
    weights, biases = x.new_zeros(n, *known.weight.shape), x.new_zeros(n, len(known.bias))
    weights[:, output], biases[:, output] = ys[-1], 1.0
    parts = [weights.flatten(1), biases]
    passed = known.weight[output].expand(n, -1)
    for layer, z, y in zip(reversed(layers), reversed(zs), reversed(ys[:-1]), strict=True):
        passed = passed * layer.on(z)
        parts = [(passed[:, :, None] * y[:, None]).flatten(1), passed, *parts]
        passed = passed @ layer.weight
    return torch.cat(parts, dim=1)


def _numbers(known: Known) -> Tensor:
    """All unknowns, in the order of their slopes."""
    parts = [part for layer in known.stack.layers for part in (layer.weight, layer.bias)]
    return torch.cat([part.flatten() for part in (*parts, known.weight, known.bias)])


def _moved(known: Known, change: Tensor) -> Known:
    """The copy with all its numbers changed."""
    left = change

    def take(part: Tensor) -> Tensor:
        nonlocal left
        first, left = left[: part.numel()], left[part.numel() :]
        return part + first.reshape(part.shape)

    layers = [replace(layer, weight=take(layer.weight), bias=take(layer.bias)) for layer in known.stack.layers]
    return replace(known, stack=Stack(layers), weight=take(known.weight), bias=take(known.bias))
