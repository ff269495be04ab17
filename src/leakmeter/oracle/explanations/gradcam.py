"""Grad-CAM: which places of the last convolution spoke for a class (Selvaraju et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from leakmeter.errors import LeakmeterError, NotApplicable, VictimError
from leakmeter.oracle.explanations.base import Explanation, Scores
from leakmeter.victims.victim import Responder


@dataclass(frozen=True)
class GradCam(Explanation):
    """The channels of the last convolution, weighted by their mean gradients, cut at zero, enlarged to the picture."""

    name: ClassVar[str] = "gradcam"
    column: ClassVar[str] = "attributions"
    linear: ClassVar[bool] = False

    def check(self, victim: Responder) -> None:
        """Needs pictures and a module that has a convolution."""
        super().check(victim)
        if len(victim.spec.input_shape) != 3:
            raise NotApplicable(f"the explanation gradcam needs pictures, got inputs of {victim.spec.input_shape}")
        last_convolution(victim)

    def work(self, victim: Responder) -> int:  # noqa: ARG002
        """One gradient."""
        return 1

    def explain(self, x: Tensor, scores: Scores) -> Tensor:
        """The maps, [n, shown, 1, height, width]; never negative."""
        kept: list[Tensor] = []
        hook = last_convolution(scores.responder).register_forward_hook(lambda _, __, output: kept.append(output))
        try:
            shown = scores(x.detach().requires_grad_())
        finally:
            hook.remove()
        if len(kept) != 1 or kept[0].dim() != 4:
            raise VictimError(f"the last convolution of {scores.spec.name} was used {len(kept)} times for one answer")
        last = shown.shape[1] - 1
        maps = []
        for column in range(last + 1):
            keep = scores.graph or column < last
            slope = torch.autograd.grad(shown[:, column].sum(), kept[0], retain_graph=keep, create_graph=scores.graph)
            maps.append((slope[0].mean((2, 3), keepdim=True) * kept[0]).sum(1, keepdim=True).relu())
        small = torch.cat(maps, 1)
        large = F.interpolate(small, x.shape[2:], mode="bilinear", align_corners=False)[:, :, None].to(x.device)
        return large if scores.graph else large.detach()


def last_convolution(victim: Responder) -> nn.Module:
    """The last one in the order in which the module holds them."""
    try:
        module: nn.Module = victim.white_box  # type: ignore[attr-defined]
    except (AttributeError, LeakmeterError) as error:
        raise NotApplicable("the explanation gradcam needs an nn.Module with no defense before it") from error
    found = [part for part in module.modules() if isinstance(part, nn.Conv2d)]
    if not found:
        raise NotApplicable(f"the explanation gradcam needs a convolution (nn.Conv2d), and {victim.spec.name} has none")
    return found[-1]
