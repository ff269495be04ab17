"""Whether two clients ask alike: the distance between the means of their queries in a space of random waves.

That distance is the maximum mean discrepancy for a Gaussian kernel (Gretton et al. 2012; random features by Rahimi and
Recht 2007). What chance alone makes of it is a weighted sum of chi-squares, here taken for a gamma with the same mean
and variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from leakmeter.detectors import flat
from leakmeter.seeds import stream

_WAVES = 128
_PAIRS = 500  # inputs from which the width of the kernel is taken
OFTEN = 10  # honest queries of a class from which it can be judged


@dataclass(frozen=True, eq=False)
class Waves:
    """A map from inputs to random waves, its width the median distance of the reference inputs."""

    weight: Tensor
    phase: Tensor

    @classmethod
    def fitted(cls, reference: Tensor, seed: int = 0) -> Waves:
        """For inputs like the reference."""
        x = flat(reference[:_PAIRS]).double()
        distances = torch.pdist(x) if len(x) > 1 else torch.ones(1, dtype=torch.float64)
        width = max(float(distances.median()), 1e-9)
        draws = stream(seed, "waves")
        weight = torch.randn(x.shape[1], _WAVES, generator=draws, dtype=torch.float64) / width
        return cls(weight, torch.rand(_WAVES, generator=draws, dtype=torch.float64) * 2 * math.pi)

    def __call__(self, x: Tensor) -> Tensor:
        """One row a query."""
        return torch.cos(flat(x).double() @ self.weight + self.phase) * math.sqrt(2 / _WAVES)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Queries of one client: how many, their mean and covariance as waves."""

    n: int
    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, waves: Tensor) -> Cloud:
        """From at least two rows."""
        centred = waves - waves.mean(0)
        return cls(len(waves), waves.mean(0), centred.T @ centred / max(1, len(waves) - 1))

    def with_(self, other: Cloud) -> Cloud:
        """Both as one client."""
        n, apart = self.n + other.n, self.mean - other.mean
        squares = (self.n - 1) * self.covariance + (other.n - 1) * other.covariance
        squares = squares + self.n * other.n / n * torch.outer(apart, apart)
        return Cloud(n, (self.n * self.mean + other.n * other.mean) / n, squares / max(1, n - 1))


@dataclass(frozen=True, eq=False)
class Usual:
    """What honest clients ask: of every class they ask often enough, and altogether."""

    classes: dict[int, Cloud]
    whole: Cloud

    @classmethod
    def of(cls, waves: Tensor, labels: Tensor) -> Usual:
        """From at least two rows and the labels they were answered with."""
        often = [label for label, n in enumerate(labels.bincount().tolist()) if n >= OFTEN]
        return cls({label: Cloud.of(waves[labels == label]) for label in often}, Cloud.of(waves))

    def like(self, labels: Tensor) -> Cloud:
        """What they would ask in the classes of these answers, in their proportions: habits are no reason to suspect.

        It is known as well as the honest queries of each class allow, as one query with that covariance would be.
        """
        shares = {label: int((labels == label).sum()) for label in self.classes}
        known = sum(shares.values())
        if not known:
            return self.whole
        parts = [(n / known, self.classes[label]) for label, n in shares.items() if n]
        mean = torch.stack([share * part.mean for share, part in parts]).sum(0)
        return Cloud(1, mean, torch.stack([share**2 / part.n * part.covariance for share, part in parts]).sum(0))


def chance_alike(one: Cloud, other: Cloud) -> float:
    """How likely two samples of one distribution lie so far apart: small where clients do not ask alike."""
    return chance(float((one.mean - other.mean).square().sum()), _spread(one, other))


def chance(apart: float, spread: Tensor) -> float:
    """How likely a squared distance is at least `apart`, of means whose difference has the covariance `spread`."""
    from scipy.stats import gamma

    mean, variance = float(spread.trace()), 2 * float(spread.square().sum())
    if variance <= 0:
        return 1.0 if apart <= 0 else 0.0
    return float(gamma.sf(apart, mean**2 / variance, scale=variance / mean))


def distance(one: Cloud, other: Cloud) -> float:
    """The squared discrepancy of what both are drawn from, estimated without bias: about 0 where they ask alike."""
    return float((one.mean - other.mean).square().sum() - _spread(one, other).trace())


def _spread(one: Cloud, other: Cloud) -> Tensor:
    return one.covariance / one.n + other.covariance / other.n
