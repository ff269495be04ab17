"""Certified prediction by Gaussian smoothing: STN's algorithm 1 with the confidence of Cohen et al. (2019).

The smoothed classifier g(x) is the class the model gives most often to x + N(0, σ²I). `certify` returns, for every
input, a class and a radius in l2 within which g cannot change, wrong with probability at most alpha for each input.
It abstains (-1, radius 0) where the votes do not settle the class. The class is chosen on `n0` votes and certified on
`n` others. The noise is torch's, in floating point: the statement is about ideal Gaussian noise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from leakmeter.certificates import sequential
from leakmeter.certificates.confidence import RunnerUp, high_probability_accuracy, samples_needed, top_two
from leakmeter.certificates.counts_file import CountsFile, fingerprint
from leakmeter.certificates.numeric import RadiusBound
from leakmeter.certificates.pixeldp import pixeldp_radius
from leakmeter.certificates.renyi import renyi_radius
from leakmeter.certificates.sampling import CHUNK, Classifier, Sampling, collect
from leakmeter.certificates.tight import tight_radius
from leakmeter.errors import UsageError
from leakmeter.progress import SILENT, Progress
from leakmeter.registry import did_you_mean

Bound = Literal["tight", "renyi", "pixeldp"]
BOUNDS: dict[Bound, RadiusBound] = {"tight": tight_radius, "renyi": renyi_radius, "pixeldp": pixeldp_radius}
ABSTAINED = -1
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is certified of each input, and the votes it follows from."""

    labels: Tensor
    """The certified class; -1: abstained."""
    radii: Tensor
    """Within this l2 distance the class cannot change."""
    counts: Tensor
    """Votes of each class, one row an input; apart from those that chose the class."""
    selection: Tensor
    """The votes that chose the class."""
    sigma: float
    alpha: float
    bound: Bound
    runner_up: RunnerUp
    target_radius: float | None
    """Where sampling stopped as soon as this radius was decided; None: every input had all n votes."""

    @property
    def samples(self) -> Tensor:
        """How many noisy copies of each input were classified."""
        return self.counts.sum(1) + self.selection.sum(1)

    def recompute(
        self, *, bound: Bound | None = None, alpha: float | None = None, runner_up: RunnerUp | None = None
    ) -> Certificate:
        """The certificate the same votes give under another bound or confidence, with no forward pass.

        Each result holds with its own confidence; the best of several holds only with their alphas added up.
        """
        return _from_votes(
            self.selection,
            self.counts,
            sigma=self.sigma,
            alpha=self.alpha if alpha is None else alpha,
            bound=bound or self.bound,
            runner_up=runner_up or self.runner_up,
            target_radius=self.target_radius,
        )

    def holds(self, y: Tensor, radius: float) -> Tensor:
        """Whether each input is certified as its true class `y` at this radius."""
        return (self.labels == y.cpu()) & (self.radii >= radius)

    def accuracy(self, y: Tensor, radius: float) -> float:
        """The fraction certified right at this radius: an estimate; see `sure_accuracy` for a bound."""
        return float(self.holds(y, radius).double().mean())

    def sure_accuracy(self, y: Tensor, radius: float, *, rho: float = 0.001) -> float:
        """A certified accuracy of these inputs that holds with probability 1 - rho."""
        certified = int(self.holds(y, radius).sum())
        return high_probability_accuracy(certified, len(self.labels), self.alpha, rho=rho)

    def average_radius(self, y: Tensor) -> float:
        """The mean radius, 0 where the class is wrong (ACR of Zhai et al., 2020)."""
        return float(torch.where(self.labels == y.cpu(), self.radii, 0).mean())

    def p_a(self, y: Tensor) -> dict[str, float]:
        """The share of votes for the true class, at five quantiles of the inputs.

        The average radius grows without end as p_A nears 1, so that a few easy inputs can lift it: this shows which.
        """
        shares = self.counts.gather(1, y.cpu()[:, None])[:, 0] / self.counts.sum(1)
        return {f"{q:.0%}": float(shares.double().quantile(q)) for q in QUANTILES}


@dataclass(frozen=True)
class Asked:
    """What `certify` was asked for; its arguments say what each is."""

    sigma: float
    n: int = 1000
    alpha: float = 0.001
    bound: Bound = "tight"
    n0: int = 100
    target_radius: float | None = None
    runner_up: RunnerUp = "rest"
    seed: int = 0
    batch: int = 250

    def sampling(self) -> Sampling:
        """How to draw the votes."""
        _check(self.bound, self.alpha, self.n, self.n0)
        stop = None
        if self.target_radius is not None:
            stop = _stopping_rule(self.target_radius, self.sigma, self.bound, self.alpha, self.n, self.runner_up)
        return Sampling(self.sigma, self.n, self.n0, stop, self.seed, self.batch)

    def file(self, path: str | os.PathLike[str], model: Classifier, x: Tensor, first: int = 0) -> CountsFile:
        """Where the votes on `x`, which begins with example `first`, are kept."""
        names = ["sigma", "n", "n0", "seed", "target_radius"]
        if self.target_radius is not None:  # the votes themselves do not depend on these
            names += ["alpha", "bound"]
        settings: dict[str, object] = {name: getattr(self, name) for name in names}
        if first:
            settings["first"] = first
        return CountsFile(path, settings | {"model or inputs": fingerprint(model, x)})


def certify(
    model: Classifier,
    x: Tensor,
    *,
    sigma: float,
    n: int = 1000,
    alpha: float = 0.001,
    bound: Bound = "tight",
    n0: int = 100,
    target_radius: float | None = None,
    runner_up: RunnerUp = "rest",
    seed: int = 0,
    batch: int = 250,
    path: str | os.PathLike[str] | None = None,
    progress: Progress = SILENT,
) -> Certificate:
    """Certifies the smoothed prediction of every row of `x`.

    Args:
        model: from a batch of inputs to a row of scores for each; used in evaluation mode.
        x: the inputs, on the model's scale. Noise may take them out of their box: the model must accept that.
        sigma: the noise's standard deviation, on the scale of `x`.
        n: votes per input; with `target_radius` the most it may take.
        alpha: the probability with which one input's certificate may be wrong.
        bound: the radius as a function of the probabilities.
        n0: votes that choose the class, apart from the n.
        target_radius: stop as soon as it is decided whether this radius is reached. The radii still hold as they
            stand, at whatever number of votes the sampling stopped (`certificates.sequential`).
        runner_up: how the other classes are bounded (`certificates.confidence.top_two`).
        seed: of the noise; the votes of an input depend on it and on the input's place in `x`.
        batch: inputs per forward pass; changes the speed, not the result.
        path: a file that keeps the votes, so that a killed run goes on and a finished one is read back.
        progress: where to show how far it is.
    """
    asked = Asked(sigma, n, alpha, bound, n0, target_radius, runner_up, seed, batch)
    file = None if path is None else asked.file(path, model, x)
    tally = collect(model, x, asked.sampling(), file=file, progress=progress)
    return _from_votes(
        tally.selection,
        tally.counts,
        sigma=sigma,
        alpha=alpha,
        bound=bound,
        runner_up=runner_up,
        target_radius=target_radius,
    )


def predict(
    model: Classifier,
    x: Tensor,
    *,
    sigma: float,
    n: int = 100,
    alpha: float = 0.001,
    seed: int = 0,
    batch: int = 250,
    progress: Progress = SILENT,
) -> Tensor:
    """The smoothed prediction of every row of `x`, or -1; other than the true one with probability at most alpha.

    Cohen et al. (2019), section 3.2.1: the two most frequent classes must differ by a two-sided binomial test.
    """
    needed = samples_needed(alpha / 2)
    if n < needed:
        raise UsageError(f"expected n >= {needed} for alpha={alpha:g}, got {n}: fewer votes settle nothing")
    counts = collect(model, x, Sampling(sigma, n, seed=seed, batch=batch), progress=progress, title="predicting").counts
    top, labels = counts.topk(2, dim=1)
    first, both = top[:, 0].numpy(), top.sum(1).numpy()
    settled = torch.from_numpy(2 * binom.sf(first - 1, both, 0.5) <= alpha)
    return torch.where(settled, labels[:, 0], ABSTAINED)


def probability_for(radius: float, sigma: float, bound: Bound) -> float:
    """The least p1 for which the bound, with p2 = 1 - p1, reaches this radius; rounded up."""
    low, high = 0.5, 1 - 2.0**-53
    best = BOUNDS[bound](high, 1 - high, sigma)
    if not 0 < radius <= best:
        raise UsageError(
            f"expected a target radius above 0 and at most {best:.4g}, all that the {bound} bound can give at "
            f"sigma={sigma:g}, got {radius}"
        )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if BOUNDS[bound](middle, 1 - middle, sigma) >= radius else (middle, high)
    return high


def _check(bound: str, alpha: float, n: int, n0: int) -> None:
    if bound not in BOUNDS:
        raise UsageError(f"unknown bound '{bound}'{did_you_mean(bound, BOUNDS)} (known: {', '.join(BOUNDS)})")
    if not 0 < alpha < 1:
        raise UsageError(f"expected alpha between 0 and 1, got {alpha}")
    if n0 < 1:
        raise UsageError(f"expected n0 >= 1, got {n0}: the class must be chosen on votes of their own")
    if n < samples_needed(alpha):
        raise UsageError(
            f"expected n >= {samples_needed(alpha)} for alpha={alpha:g}, got {n}: "
            "even if all votes agreed nothing would be certified"
        )


def _stopping_rule(
    radius: float, sigma: float, bound: Bound, alpha: float, n: int, runner_up: RunnerUp
) -> sequential.StoppingRule:
    if runner_up != "rest":
        raise UsageError("expected runner_up='rest' with a target radius, got 'classes'; drop one of the two")
    # A hair more than needed, so that rounding cannot leave a decided input just short of the target.
    p = probability_for(radius, sigma, bound) * (1 + 1e-12)
    needed = sequential.samples_to_reach(p, alpha)
    if n < needed:
        raise UsageError(
            f"expected n >= {needed} to certify the radius {radius:g} at alpha={alpha:g}, got {n}: "
            "even if all votes agreed it would not be reached"
        )
    return sequential.StoppingRule.for_target(p, n, alpha, every=CHUNK)


def _from_votes(
    selection: Tensor,
    counts: Tensor,
    *,
    sigma: float,
    alpha: float,
    bound: Bound,
    runner_up: RunnerUp,
    target_radius: float | None,
) -> Certificate:
    _check(bound, alpha, int(counts.sum(1).max()), int(selection.sum(1).min()))
    votes, top = counts.numpy(), selection.argmax(1)
    if target_radius is None:
        p1, p2 = top_two(votes, top.numpy(), alpha, runner_up)
    else:
        p1 = sequential.lower_bound(votes[np.arange(len(votes)), top.numpy()], votes.sum(1), alpha)
        p2 = 1 - p1
    radii = torch.from_numpy(BOUNDS[bound](p1, p2, sigma))
    labels = torch.where(radii > 0, top, ABSTAINED)
    return Certificate(labels, radii, counts, selection, sigma, alpha, bound, runner_up, target_radius)
