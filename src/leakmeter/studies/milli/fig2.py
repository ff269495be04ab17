"""Figure 2 of Milli et al.: what gradients and SmoothGrad add to membership queries, model class known."""

from __future__ import annotations

from typing import Any

from leakmeter.studies.milli._learning import GPU_ONLY, Panel, Study, told
from leakmeter.studies.milli._table import (
    GRADIENTS,
    MEMBERSHIP,
    SMOOTHGRAD,
    SMOOTHGRAD_1000,
    Claim,
    accuracy_at,
    gap,
    queries_for,
    times_fewer,
    worth,
)
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

PANELS = [
    Panel(
        "mnist",
        "milli-conv",
        "milli-conv",
        most={GRADIENTS: 100, SMOOTHGRAD: 10, SMOOTHGRAD_1000: 10, MEMBERSHIP: 1_000},
    ),
    Panel("mnist", "linear", "linear", most={GRADIENTS: 100, SMOOTHGRAD: 10, SMOOTHGRAD_1000: 0}),
    Panel("mnist", "mlp", "mlp", most={GRADIENTS: 1_000, SMOOTHGRAD: 100, SMOOTHGRAD_1000: 100}),
    Panel(
        "cifar10", "milli-conv", "milli-conv", most={GRADIENTS: 10, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0, MEMBERSHIP: 100}
    ),
    Panel("cifar10", "vgg11", "vgg11", most=GPU_ONLY),
    Panel("cifar10", "resnet18", "resnet18", most=GPU_ONLY),
]
_CONV, _CIFAR = "mnist milli-conv", "cifar10 milli-conv"
CLAIMS = [
    Claim("mnist linear", "one gradient query gives the accuracy of the original", accuracy_at(GRADIENTS, 1), 0.91),
    Claim("mnist linear", "1000× fewer queries", worth(), 1000),
    Claim("mnist mlp", "100× fewer queries", worth(), 100),
    Claim("mnist mlp", "", times_fewer()),
    Claim("mnist mlp", "no difference between gradients and SmoothGrad", gap(GRADIENTS, SMOOTHGRAD, 100), -1),
    Claim("mnist mlp", "the same, at the noise of appendix D", gap(GRADIENTS, SMOOTHGRAD_1000, 100), -1),
    Claim(_CONV, "95% from 10 gradient queries", accuracy_at(GRADIENTS, 10), 0.95),
    Claim(_CONV, "95% from 1000 membership queries", queries_for(MEMBERSHIP, 0.95)),
    Claim(_CONV, "100× fewer queries", worth(), 100),
    Claim(_CONV, "", times_fewer()),
    Claim(_CONV, "no difference between gradients and SmoothGrad", gap(GRADIENTS, SMOOTHGRAD, 10), -1),
    Claim(_CONV, "the same, at the noise of appendix D", gap(GRADIENTS, SMOOTHGRAD_1000, 10), -1),
    Claim(_CIFAR, "reconstructed in 100 gradient queries", accuracy_at(GRADIENTS, 100)),
    Claim(_CIFAR, "at least 100× fewer queries", worth(), 100),
    Claim(_CIFAR, "reconstructed in 10,000 membership queries", accuracy_at(MEMBERSHIP, 10_000)),
    Claim("cifar10 vgg11", "10× fewer queries for 75%", times_fewer(0.75), 10),
    Claim("cifar10 resnet18", "10× fewer queries for 75%", times_fewer(0.75), 10),
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `milli-fig2.json` and `.png` into `out`; goes on where an earlier run stopped."""
    return Study("milli-fig2", settings).run(PANELS, CLAIMS)


def rows(found: dict[str, Any]) -> list[Row]:
    """The paper's sentences."""
    return told(found, PANELS, CLAIMS)
