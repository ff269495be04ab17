"""What an owner can hide of an explanation: all but the largest, sizes, digits or signs; or all of it under noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations.base import Explanation, Protection, share
from leakmeter.victims.spec import VictimSpec

_MOST_DECIMALS = 17


@dataclass(frozen=True)
class Top(Protection):
    """Shows the `k` largest numbers of each map, by size, and zero for the others."""

    name: ClassVar[str] = "top"
    hides: ClassVar[bool] = True
    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"expected the protection top:K with K from 1 on, got '{self}'")

    def check(self, explanation: Explanation, spec: VictimSpec) -> None:
        """There must be that many numbers."""
        super().check(explanation, spec)
        if self.k > spec.features:
            raise UsageError(f"expected the protection top:K with K at most {spec.features} features, got {self.k}")

    def at_least(self, other: Protection) -> bool:
        """The K largest are among more of them."""
        return isinstance(other, Top) and other.k <= self.k

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The same maps, mostly zero."""
        flat = explanation.flatten(2)
        largest = flat.abs().topk(min(self.k, flat.shape[2]), dim=2).indices
        return torch.zeros_like(flat).scatter(2, largest, flat.gather(2, largest)).reshape(explanation.shape)

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:
        """Those shown as they are; those hidden are no larger than the least shown."""
        seen = shown != 0
        inner = tuple(range(1, shown.dim()))
        least = torch.where(seen, shown.abs(), torch.inf).amin(inner, keepdim=True).nan_to_num(posinf=0)
        wrong = torch.where(seen, soft - shown, (soft.abs() - least).relu())
        return share(wrong, power)


@dataclass(frozen=True)
class Sign(Protection):
    """Shows for each number whether it is above or below zero."""

    name: ClassVar[str] = "sign"

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """1, 0 or -1."""
        return explanation.sign()

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:  # noqa: ARG002
        """Signs that differ."""
        return contradictions(soft, shown)


@dataclass(frozen=True)
class Round(Protection):
    """Keeps so many decimals."""

    name: ClassVar[str] = "round"
    maps_only: ClassVar[bool] = False
    decimals: int

    def __post_init__(self) -> None:
        if not 0 <= self.decimals <= _MOST_DECIMALS:
            raise UsageError(f"expected the protection round:D with D from 0 to {_MOST_DECIMALS}, got '{self}'")

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """The rounded numbers."""
        return torch.round(explanation, decimals=self.decimals)

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:
        """How far outside of what rounds to this."""
        outside = ((soft - shown).abs() - 0.5 * 10.0**-self.decimals).relu()
        return share(outside, power)


@dataclass(frozen=True)
class Noise(Protection):
    """Adds normal noise of `share` times the root mean square of the map, new in every answer."""

    name: ClassVar[str] = "noise"
    maps_only: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    share: float

    def __post_init__(self) -> None:
        if self.share <= 0:
            raise UsageError(f"expected the protection noise:S with S above 0, got '{self}'")

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:
        """The noisy map."""
        inner = tuple(range(min(2, explanation.dim() - 1), explanation.dim()))
        size = explanation.square().mean(inner, keepdim=True).sqrt()
        shift = torch.randn(explanation.shape, generator=noise, dtype=explanation.dtype).to(explanation.device)
        return explanation + self.share * size * shift


@dataclass(frozen=True)
class Absolute(Protection):
    """Shows sizes without signs, as saliency pictures do."""

    name: ClassVar[str] = "abs"

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """Nothing below zero."""
        return explanation.abs()

    def mismatch(self, soft: Tensor, shown: Tensor, power: Tensor) -> Tensor:
        """Sizes that differ."""
        return share(soft.abs() - shown, power)


def contradictions(soft: Tensor, shown: Tensor, *, ranked: bool = False) -> Tensor:
    """How much of `soft` lies on the wrong side of signs, as a share of its square; about 1 for the opposite.

    The share knows no size, so a student gains nothing by explaining everything with nearly nothing.

    Args:
        soft: a student's explanation, [n, ...].
        shown: 1, -1, or 0 where nothing is said.
        ranked: whether what is 0 is also known to be smaller than what is not.
    """
    soft, shown = soft.flatten(1), shown.flatten(1)
    wrong = torch.where(shown != 0, (-shown * soft).relu(), torch.zeros_like(soft))
    if ranked:
        least = torch.where(shown != 0, (shown * soft).relu(), torch.inf).amin(1, keepdim=True).nan_to_num(posinf=0)
        wrong = wrong + torch.where(shown == 0, (soft.abs() - least).relu(), torch.zeros_like(soft))
    size = soft.square().sum(1).clamp_min(torch.finfo(soft.dtype).tiny)
    return (wrong.square().sum(1) / size).mean()
