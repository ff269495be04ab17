"""What stands beside every fidelity: the copy class by class, and what a copy that ignores its input would get."""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor


class ByClass(BaseModel):
    """A copy's agreement class by class, over the classes that the victim names on the test inputs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    balanced: float
    """Mean agreement over classes, each counted once however rare it is."""
    worst: float
    """Agreement in the class that the copy knows least."""
    worst_class: int
    worst_n: int
    """Test inputs of that class."""
    unnamed: int
    """Classes that the victim names and the copy never does."""
    constant: float
    """Fidelity of the best copy that always names one class."""
    majority: float | None = None
    """Fidelity of the copy that always names the commonest true label: it costs no query at all."""


def by_class(copy: Tensor, victim: Tensor, y: Tensor | None) -> ByClass:
    """Compares the classes that a copy and the victim name; `y` are the true labels, where there are any."""
    size = 1 + int(max(copy.max(), victim.max(), -1 if y is None else y.max()))
    counts = torch.bincount(victim, minlength=size)
    agreed = torch.bincount(victim[copy == victim], minlength=size)
    named = counts.nonzero()[:, 0]
    rates = agreed[named].double() / counts[named]
    worst = int(rates.argmin())
    return ByClass(
        balanced=float(rates.mean()),
        worst=float(rates[worst]),
        worst_class=int(named[worst]),
        worst_n=int(counts[named[worst]]),
        unnamed=int((torch.bincount(copy, minlength=size)[named] == 0).sum()),
        constant=int(counts.max()) / len(victim),
        majority=None if y is None else int(counts[int(y.mode().values)]) / len(victim),
    )
