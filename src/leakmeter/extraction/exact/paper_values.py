"""Appendix C of the paper, Algorithm 1-MQ: Algorithm 1 with gradients estimated from d values each."""

from __future__ import annotations

import torch
from torch import Tensor

from leakmeter.extraction.exact.paper import PaperFailure, SearchRange, Values


def step_size(search: SearchRange, delta: float) -> float:
    """`s` of Theorem 4, with h for the misprinted epsilon of its denominator, as its proof has it."""
    return delta * search.epsilon / (2 * (2 - delta) * search.reach * search.h)


def check_step(step: float, reach: float, eps: float) -> float:
    """How precise the estimates are, relatively; refuses a step that rounding would swallow at the far end."""
    noise = 64 * eps * reach / step
    if noise > 1e-2:
        raise PaperFailure(
            f"Theorem 4 asks for steps of {step:.1e}, which the arithmetic cannot resolve at distance {reach:.1e}; "
            "use a larger delta, fewer units, or method='secant'"
        )
    return noise


def estimate_gradient(values: Values, x: Tensor, step: float) -> Tensor:
    """Forward differences at x: d + 1 values."""
    answers = values(torch.cat([x[None], x + step * torch.eye(len(x), dtype=x.dtype)]))
    return (answers[1:] - answers[0]) / step
