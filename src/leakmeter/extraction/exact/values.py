"""Our reconstruction from values alone: bends on a line from slopes, then d values in each cell, once.

A slope along the line costs two values, so finding the bends is cheap; the gradient of a cell costs d. A line with h
bends comes to about (d + 2)(h + 1) values, against the paper's d h log(h / delta).
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.asking import Asker, Pieces
from leakmeter.extraction.exact.kinks import Trace, search
from leakmeter.extraction.exact.line import Line
from leakmeter.extraction.exact.network import OneHidden
from leakmeter.seeds import stream

_TRIES = 6


def first_piece(asker: Asker, start: Tensor, answer: Pieces) -> OneHidden:
    """The linear piece at the start by differences: d values, and one to check them."""
    flat = OneHidden(start, answer.values[0], answer.values.new_zeros(asker.outputs, asker.d))
    gradient = _differences(asker, flat, start, 0 * answer.values[0], width=0.1)
    if gradient is None:
        return flat
    asker.steepest = float(gradient.norm())
    return OneHidden(start, answer.values[0], gradient)


class ValueLine(Line):
    """A line on which only values are shown."""

    def explained(self) -> bool:
        """Whether the copy predicted the values at the far points."""
        f, f_noise = self._values(self.far, self.answer)
        return bool((f.norm(dim=1) <= f_noise).all())

    def explore(self) -> int:
        """Finds the bends by slopes, then walks outwards from the start and pays for the gradient of each cell."""
        if self.asker.room(len(self.far)) < len(self.far):
            return 0
        ends = self._trace(self.far, self.answer)
        start = Trace(0 * ends.t, 0 * ends.f, 0 * ends.g, 0 * ends.f_noise, ends.g_noise)[:1]
        known = start.join(ends)
        bends = search(
            lambda t: self._trace(t, self.ask(t)),
            known[torch.argsort(known.t)],
            self.start.new_ones(1),
            resolution=4 * self._step(),
            room=lambda wanted: self.asker.room(2 * wanted) // 2,
            believe=0,  # asking costs two values, believing wrongly the gradients of two cells
        )
        found = [unit for side in (1, -1) for unit in self._walk(bends.t[torch.sign(bends.t) == side], side)]
        if found:
            self.learn(torch.stack([t for t, _ in found]), torch.stack([jump for _, jump in found]))
        return bends.rounds + len(found)

    def _walk(self, t: Tensor, side: int) -> list[tuple[Tensor, Tensor]]:
        """The bends on one side of the start, outwards, each with its jump; fewer where the budget ends."""
        t = t[torch.argsort(t * side)]
        apart = torch.diff(t.abs(), prepend=t.new_zeros(1)) > 16 * self._step() * (1 + t.abs())
        t = t[apart]  # a slope taken across a bend looks like a tiny cell
        outer = torch.cat([t[1:], (side * (2 * t[-1:].abs() + 1)).clamp(-self.length, self.length)]) if len(t) else t
        near = t.new_zeros(()), t.new_zeros(self.asker.outputs), t.new_zeros(self.asker.outputs, self.asker.d)
        found: list[tuple[Tensor, Tensor]] = []
        for bend, end in zip(t, outer, strict=True):
            middle = (bend + end) / 2
            far = self._piece(middle, float(abs(end - bend)))
            if far is None:
                break
            jump = far[1] - near[2]
            slope = jump @ self.along
            ahead = far[0] - near[1] - (middle - near[0]) * (near[2] @ self.along)
            exact = middle - (ahead @ slope) / (slope @ slope)
            found.append((exact, jump * side))
            near = middle, *far
        return found

    def _piece(self, t: Tensor, width: float) -> tuple[Tensor, Tensor] | None:
        """What the copy lacks in the cell around t: value and gradient."""
        if self.asker.room(1) == 0:
            return None
        x = self.at(t[None])
        value = self.ask(t[None]).values[0] - self.network(x)[0]
        scale = float(self.along.square().mean().sqrt())
        gradient = _differences(self.asker, self.network, x[0], value, width * scale)
        if gradient is None:
            return None
        self.asker.steepest = max(self.asker.steepest, float((gradient + self.network.pieces(x)[1][0]).norm()))
        return value, gradient

    def _step(self) -> float:
        return float(self.asker.eps**0.4)

    def _values(self, t: Tensor, answer: Pieces) -> tuple[Tensor, Tensor]:
        x = self.asker.rounded(self.at(t))
        return answer.values - self.network(x), self.value_noise(x, answer)

    def _trace(self, t: Tensor, answer: Pieces) -> Trace:
        """Values, and slopes from a second value a small step nearer to the start."""
        step = self._step() * (1 + t.abs()) * torch.sign(t)
        f, f_noise = self._values(t, answer)
        nearer, _ = self._values(t - step, self.ask(t - step))
        slope = (f - nearer) / step[:, None]
        return Trace(t, f, slope[:, :, None], f_noise, 2 * f_noise / step.abs())


def _differences(asker: Asker, network: OneHidden, x: Tensor, value: Tensor, width: float) -> Tensor | None:
    """The gradient at x of what the network lacks, by one step along each feature; None where the budget ends.

    Steps begin at a share of the cell's width on the line and shrink until a step in a random direction agrees, which
    it does only if none of them left the cell. A box is never left.
    """
    step = width / 8
    for attempt in range(_TRIES):
        if asker.room(asker.d + 1) <= asker.d:
            return None
        turn = torch.where(asker.rounded(x[None] + step)[0] >= x + step / 2, step, -step)
        shares = 0.5 + torch.rand(asker.d, generator=stream(attempt, "check"), dtype=torch.float64)
        points = asker.rounded(torch.cat([x + torch.diag(turn), (x + turn * shares / asker.d**0.5)[None]]))
        moved = points - x
        answer = asker.ask(points)
        change = answer.values - network(points) - value
        gradient = (change[:-1] / moved[:-1].diagonal()[:, None]).T
        slope = max(asker.steepest, float(gradient.norm()))
        noise = float(16 * asker.eps * (answer.size.max() + slope * points.square().mean(1).max().sqrt()))
        if bool((change[-1] - gradient @ moved[-1]).norm() <= 4 * noise):
            break
        step /= 8
    asker.blur = (asker.blur**2 + asker.d * (noise / step) ** 2) ** 0.5
    return gradient
