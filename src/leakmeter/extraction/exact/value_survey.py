"""Surveys a line from values alone: bends from slopes, two values each; then d + 1 values for a cell's gradient."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.differences import differences
from leakmeter.extraction.exact.kinks import Trace, search
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.extraction.exact.survey import SLACK, Survey, leading, readable

_SHORT_STEP = 1e-3


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

    start = ask(origin.new_tensor(ends))
    room = lambda wanted: asker.room(2 * wanted) // 2  # noqa: E731
    bends = search(ask, start, origin.new_ones(1), resolution=4 * step, room=room)
    close = torch.diff(bends.t, prepend=bends.t.new_full((1,), -torch.inf)) <= 16 * step * (1 + bends.t.abs())
    t = bends.t[~close]  # a slope taken across a bend looks like a tiny cell
    cells = _cells(asker, origin, along, t, ends)
    return _joined(origin, along, ends, t, cells, short)


def _cells(asker: Asker, origin: Tensor, along: Tensor, t: Tensor, ends: tuple[float, float]) -> Trace:
    """The linear piece of every cell between bends; fewer where the budget ends."""
    nothing = OneHidden(origin, origin.new_zeros(asker.outputs), origin.new_zeros(asker.outputs, asker.d))
    width = float(along.square().mean().sqrt())
    edges = [max(ends[0], 2 * float(t[0]) - 1), *t.tolist(), min(ends[1], 2 * float(t[-1]) + 1)] if len(t) else [*ends]
    found = []
    for left, right in pairwise(edges):
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
    empty = Trace(t[:0], t.new_zeros(0, asker.outputs), t.new_zeros(0, asker.outputs, asker.d), t[:0], t[:0])
    for cell in found:
        empty = empty.join(cell)
    return empty


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
