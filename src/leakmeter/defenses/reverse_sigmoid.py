"""Reverse sigmoid: deceptive perturbations of the probabilities (Lee, Edwards, Molloy and Su 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.defenses.base import Defense, reread
from leakmeter.errors import UsageError
from leakmeter.oracle.answer import Answer

_EPS = (
    1e-12  # probabilities are moved this far from 0 and 1, on both sides alike, so that the top class is perturbed too
)
_SURE = 27.5  # log-odds just inside _EPS
_CLOSE = 1e-3  # a reading whose probabilities add up to 1 this closely fits
_POINTS = 1 << 22  # numbers at once in a search


@dataclass(frozen=True)
class ReverseSigmoid(Defense):
    """Shows f(y) / Σ f(y), where f(y) = y - beta (σ(gamma σ⁻¹(y)) - ½) and σ is the logistic function.

    f lifts what is near 0 up to beta/2 and, near 0, falls as y rises: two probabilities far apart look alike. The
    arg-max is kept wherever the top probability exceeds ½ (f maps [0, ½] into [0, ½]); below that it can change.
    """

    name: ClassVar[str] = "reverse-sigmoid"
    differentiable: ClassVar[bool] = True
    beta: float
    gamma: float

    def __post_init__(self) -> None:
        if not (0 < self.beta <= 1 and 0 < self.gamma <= 1 and self.beta * self.gamma < 1):
            raise UsageError(f"expected reverse-sigmoid:BETA,GAMMA above 0, up to 1 and not both 1, got '{self}'")

    def change(self, probs: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The perturbed probabilities, normalised."""
        raw = self.perturbed(probs)
        return raw / raw.sum(1, keepdim=True)

    def perturbed(self, y: Tensor) -> Tensor:
        """f, before the sum is set right."""
        return y - self.beta * (torch.sigmoid(self.gamma * torch.logit(y, eps=_EPS)) - 0.5)

    def undo(self, answer: Answer) -> Answer:
        """Probabilities that would have been shown like this.

        There can be many, since below ½ f takes most values twice and its sum is not shown. Tried first is the reading
        that keeps the order of the classes; where none adds up to 1, the one that takes whatever may be near 0 to be
        there, as a confident model's classes are.
        """
        rows = max(1, _POINTS // (_Search.COARSE * answer.classes))
        return reread(answer, torch.cat([self._read(shown) for shown in torch.split(answer.probs.double(), rows)]))

    def _read(self, shown: Tensor) -> Tensor:
        ordered, miss = _Search(self, shown, near_zero=False).best()
        confident, _ = _Search(self, shown, near_zero=True).best()
        probs = torch.where(miss < _CLOSE, ordered, confident)
        return probs / probs.sum(1, keepdim=True)


class _Search:
    """Guesses the top probability: that gives the hidden sum, hence every other probability, hence how well all fit."""

    COARSE, FINE = 257, 17  # guesses in the first look, and in each closer one
    CLOSER = 3

    def __init__(self, defense: ReverseSigmoid, shown: Tensor, *, near_zero: bool) -> None:
        self.defense, self.shown, self.near_zero = defense, shown, near_zero
        self.top = shown.argmax(1, keepdim=True)
        self.highest = shown.gather(1, self.top)
        self.falling, self.rising = _branches(defense)

    def best(self) -> tuple[Tensor, Tensor]:
        """The probabilities of the best guess, and how badly they fit: one number a row."""
        least = -torch.log(
            torch.tensor(self.shown.shape[1] - 1.0, dtype=torch.float64)
        ).item()  # odds of 1 to classes - 1
        middle, width, points = torch.full_like(self.highest, (least + _SURE) / 2), (_SURE - least) / 2, self.COARSE
        for _ in range(1 + self.CLOSER):
            guesses = (middle + torch.linspace(width, -width, points).to(middle)).clamp(least, _SURE)
            probs, miss = self.read(guesses.sigmoid())
            best = miss.argmin(1, keepdim=True)
            middle, width, points = guesses.gather(1, best), 2 * width / (points - 1), self.FINE
        rows = torch.arange(len(best), device=best.device)
        return probs[rows, best[:, 0]], miss.gather(1, best)

    def read(self, top: Tensor) -> tuple[Tensor, Tensor]:
        """All probabilities given each guess of the top one, [n, guesses, classes], and how badly they fit."""
        raw = (self.defense.perturbed(top) / self.highest)[:, :, None] * self.shown[:, None, :]
        probs = _inverse(raw, *self.rising)
        if self.near_zero:
            probs = torch.where(raw > self.falling[0][-1], probs, _inverse(raw, *self.falling))
        probs = probs.scatter(2, self.top[:, None, :].expand(-1, top.shape[1], 1), top[:, :, None])
        beyond = (self.rising[0][0] - raw).clamp_min(0).amax(2)  # f takes no value below its least
        return probs, (probs.sum(2) - 1).abs() + beyond


@lru_cache(maxsize=8)
def _branches(defense: ReverseSigmoid) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Where f falls and where it rises on [0, ½]: its values, rising, with the log-odds of their arguments."""
    odds = torch.linspace(-_SURE, 0, 4096, dtype=torch.float64)
    values = defense.perturbed(odds.sigmoid())
    least = min(max(int(values.argmin()), 1), len(odds) - 2)
    return (values[: least + 1].flip(0), odds[: least + 1].flip(0)), (values[least:], odds[least:])


def _inverse(raw: Tensor, values: Tensor, odds: Tensor) -> Tensor:
    """The argument at which f has these values, interpolated between log-odds; the nearest where it never has."""
    values, odds = values.to(raw), odds.to(raw)
    right = torch.searchsorted(values, raw).clamp(1, len(values) - 1)
    low, high = values[right - 1], values[right]
    part = ((raw - low) / (high - low)).clamp(0, 1)
    return torch.lerp(odds[right - 1], odds[right], part).sigmoid()
