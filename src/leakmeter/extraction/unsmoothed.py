"""SmoothGrad of probabilities turned back into gradients: a mean over noise of slopes that vanish where one is sure.

A student's own mean over few draws is far from the server's, and its probabilities are others until it is a copy. What
is shown is turned into a gradient of the logarithm of a probability instead. Where log p is about linear within the
noise, `p(x + σe) = p(x) exp(σ <e, g>)`, and the mean slope is `p g exp(σ² |g|² / 2)`: it points along g, but is too
long. Divided by the p shown its length is `M = |g| exp(σ² |g|² / 2)`, so `σ² |g|² = W(σ² M²)` with Lambert's W.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from leakmeter.oracle.answer import Answer
from leakmeter.oracle.explanations.gradient import Gradient
from leakmeter.oracle.explanations.smoothgrad import SmoothGrad
from leakmeter.victims.spec import VictimSpec

_NOISY = 4.0  # σ² |g|² above this: noise that takes one so far says little of the place itself
_MOST = 1e300


def unsmoothed(answer: Answer, spec: VictimSpec) -> Answer:
    """The answer as one with gradients, where it is one of probabilities with SmoothGrad of little noise.

    Signs, ranks and intervals of a protected one are left as they are: those of the gradient are about the same.
    """
    view = answer.view
    if not isinstance(view.explanation, SmoothGrad) or view.kind not in ("probs", "top"):
        return answer
    maps, sigma = answer.explanation, view.explanation.sigma
    inner, times = _turned(maps * torch.as_tensor(spec.box.unit).to(maps), answer.probs, sigma)
    if inner.numel() and float(inner.mean()) > _NOISY:
        return answer
    if all(protection.linear for protection in view.protections):
        maps = maps * times.to(maps).view(*times.shape, *[1] * (maps.dim() - 2))
    columns = {**answer.columns, Gradient.column: maps}
    return replace(answer, view=replace(view, explanation=Gradient()), columns=columns)


def _turned(maps: Tensor, probs: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """`σ² |g|²` of the maps that show anything, and what to multiply each map by, [n, classes]: else 1."""
    from scipy.special import lambertw  # slow to import, and needed only here

    long = maps.flatten(2).norm(dim=2).double() / probs.double().clamp_min(torch.finfo(torch.double).tiny)
    shown = (long > 0) & (long < torch.inf)
    inner = torch.from_numpy(lambertw((sigma * long).square().clamp_max(_MOST).numpy()).real)
    return inner[shown], torch.where(shown, inner.sqrt() / (sigma * long), 1.0)
