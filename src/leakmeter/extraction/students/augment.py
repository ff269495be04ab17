"""Changes of a picture that a student takes to keep its answer: the less is known, the more they help."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.extraction.procedural import jittered
from leakmeter.victims.spec import VictimSpec

Augmentation = Literal["none", "turned", "mirrored"]


def augmentations(spec: VictimSpec) -> tuple[Augmentation, ...]:
    """What may be tried, the likeliest first: colour pictures are mostly of things that have no handedness."""
    if len(spec.input_shape) != 3:
        return ("none",)
    return ("turned", "none") if spec.input_shape[0] == 1 else ("mirrored", "none")


def augmented(x: Tensor, how: Augmentation, draws: torch.Generator) -> Tensor:
    """`turned`: small turns, zooms and shifts; `mirrored`: half of them mirrored, all shifted by up to an eighth."""
    if how == "turned":
        return jittered(x, 1.0, draws)
    return _shifted(_mirrored(x, draws), draws) if how == "mirrored" else x


class BothWays(nn.Module):
    """A network that looks at a picture and at its mirror image, and says the mean: for one that learned from both."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """The mean of both outputs."""
        mean: Tensor = (self.network(x) + self.network(x.flip(3))) / 2
        return mean


def _mirrored(x: Tensor, draws: torch.Generator) -> Tensor:
    half = torch.rand(len(x), 1, 1, 1, generator=draws, device=x.device) < 0.5
    return torch.where(half, x.flip(3), x)


def _shifted(x: Tensor, draws: torch.Generator) -> Tensor:
    n, _, height, width = x.shape
    most = max(1, min(height, width) // 8)
    padded = F.pad(x, (most,) * 4, mode="reflect")
    down, across = torch.randint(2 * most + 1, (2, n, 1), generator=draws, device=x.device)
    rows, columns = ((start + torch.arange(size, device=x.device)) for start, size in ((down, height), (across, width)))
    picture = torch.arange(n, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[picture, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
