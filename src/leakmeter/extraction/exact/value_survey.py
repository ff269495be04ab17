"""Surveys a line from values alone: bends from slopes, two values each; then d + 1 values for a cell's gradient."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.differences import differences
from leakmeter.extraction.exact.kinks import Trace, search
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.survey import SLACK, Survey, first_positions, leading, readable

_SHORT_STEP = 1e-3
_AGAIN, _ROOM = 4, 64
"""How often a line is searched again where its cells contradict it, and the questions that must be left for it."""


def value_survey(
    asker: Asker,
    origin: Tensor,
    along: Tensor,
    ends: tuple[float, float],
    short: bool,
    known: Trace | None = None,  # noqa: ARG001  cells cost more than what slopes could tell again
    trust: bool = False,  # noqa: ARG001
) -> Survey:
    """Searches a line on which only values are shown.

    Raises:
        SaturatedError: where a probability on the way cannot be read.
    """
    step = float(asker.eps**0.4) if not short else _SHORT_STEP

    length = float(along.square().mean().sqrt())

    def ask(t: Tensor) -> Trace:
        forward = torch.where(t + step * (1 + t.abs()) <= ends[1], 1.0, -1.0).to(t) * step * (1 + t.abs())
        x = asker.rounded(origin + torch.cat([t, t + forward])[:, None] * along)
        answer = readable(asker.ask(x))
        n, scale = len(t), x.square().mean(1).sqrt()
        if asker.steepest == 0:
            asker.steepest = float(((answer.values[n:] - answer.values[:n]) / forward[:, None]).abs().max()) / length
        noise = SLACK * asker.eps * (answer.size + asker.steepest * scale)[:n]
        slope = (answer.values[n:] - answer.values[:n]) / forward[:, None]
        return Trace(t, answer.values[:n], slope[:, :, None], noise, 2 * noise / forward.abs())

    room = lambda wanted: asker.room(2 * wanted) // 2  # noqa: E731
    look = partial(search, ask, along=origin.new_ones(1), resolution=4 * step, room=room)
    bends = look(ask(first_positions(ends, short, asker.room)))
    t, asked, cells = _apart(bends.t, step), bends.cells, None
    for _ in range(_AGAIN):
        between, cells = t, _cells(asker, origin, along, _edges(t, ends), cells)
        more = _contradicted(t, asked, cells, along)
        if not more or asker.room(_ROOM) < _ROOM:
            break
        found = [look(known) for known in more]
        t = _apart(torch.cat([t, *(bends.t for bends in found)]).sort()[0], step)
        asked = Trace.all([asked, *(bends.cells for bends in found)])
    assert cells is not None
    return _joined(origin, along, ends, between, cells, short)  # what the last round found has no cells yet


def _apart(t: Tensor, step: float) -> Tensor:
    """Bends without those beside another: a slope taken across a bend looks like a tiny cell."""
    close = torch.diff(t, prepend=t.new_full((1,), -torch.inf)) <= 16 * step * (1 + t.abs())
    return t[~close]


def _edges(t: Tensor, ends: tuple[float, float]) -> list[float]:
    """Between which positions there is one cell each."""
    if not len(t):
        return [*ends]
    return [max(ends[0], 2 * float(t[0]) - 1), *t.tolist(), min(ends[1], 2 * float(t[-1]) + 1)]


def _contradicted(t: Tensor, asked: Trace, cells: Trace, along: Tensor) -> list[Trace]:
    """What is known of each gap between bends whose cell has another slope than what was asked there before.

    Where the victim is constant on both sides, what lies between is not searched for; a cell in its middle shows it.
    """
    slope, noise = cells.g @ along[:, None], cells.g_noise * float(along.norm())
    gap, found = torch.searchsorted(t, asked.t), []
    for i in range(len(cells.t)):
        inside = asked[gap == i]
        allowed = noise[i] + inside.g_noise + 1e-6 * slope[i].norm()
        if bool(((inside.g - slope[i]).flatten(1).norm(dim=1) > allowed).any()):
            one = cells[i : i + 1]
            known = inside.join(replace(one, g=slope[i : i + 1], g_noise=noise[i : i + 1]))
            found.append(known[torch.argsort(known.t)])
    return found


def _cells(asker: Asker, origin: Tensor, along: Tensor, edges: list[float], known: Trace | None) -> Trace:
    """The linear piece of every cell between edges, those known not asked again; fewer where the budget ends."""
    nothing = OneHidden(origin, origin.new_zeros(asker.outputs), origin.new_zeros(asker.outputs, asker.d))
    width = float(along.square().mean().sqrt())
    found = []
    for left, right in pairwise(edges):
        inside = None if known is None else known[(known.t > left) & (known.t < right)]
        if inside is not None and len(inside.t):
            found.append(inside[:1])
            continue
        if asker.room(asker.d + 2) < asker.d + 2:
            break
        x = asker.rounded((origin + (left + right) / 2 * along)[None])
        answer = readable(asker.ask(x))
        slopes = differences(asker, nothing, x[0], answer.values[0], (right - left) * width)
        if slopes is None:
            break
        asker.steepest = max(asker.steepest, float(slopes.gradient.norm()))
        noise = SLACK * asker.eps * (answer.size + asker.steepest * x.square().mean(1).sqrt())
        at = x.new_tensor([(left + right) / 2])
        moved = answer.values + (slopes.gradient @ (origin + at * along - x[0]))[None]
        found.append(Trace(at, moved, slopes.gradient[None], noise, at.new_tensor([slopes.error])))
    none = origin[:0]
    empty = Trace(none, none.new_zeros(0, asker.outputs), none.new_zeros(0, asker.outputs, asker.d), none, none)
    return Trace.all([empty, *found])


def _joined(origin: Tensor, along: Tensor, ends: tuple[float, float], t: Tensor, cells: Trace, short: bool) -> Survey:
    """Where neighbouring pieces meet, and the jumps between them."""
    jump, noise = cells.g[1:] - cells.g[:-1], cells.g_noise[1:] + cells.g_noise[:-1]
    bend = jump @ along
    apart = (cells.f[1:] - cells.g[1:] @ along * cells.t[1:, None]) - (
        cells.f[:-1] - cells.g[:-1] @ along * cells.t[:-1, None]
    )
    meet = -(apart * bend).sum(1) / bend.square().sum(1).clamp(min=1e-300)
    lead, size, error = leading(jump, noise)
    t = t[: len(meet)]
    wrong = (meet - t).abs() > 1e-3 * (1 + t.abs())
    return Survey(
        origin,
        along,
        ends,
        torch.where(wrong, t, meet),
        lead / size[:, None],
        torch.where(wrong, torch.inf, error),
        cells,
        short,
    )
