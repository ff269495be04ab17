"""Figure 3 of Milli et al.: the student is of another model class than the victim (section 5.2)."""

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
    times_fewer,
    worth,
)
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

_CONV_STUDENT = {MEMBERSHIP: 100, GRADIENTS: 10, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0}
PANELS = [
    Panel("mnist", "linear", "mlp", most={GRADIENTS: 1_000, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0}),
    Panel("mnist", "mlp", "linear", most={GRADIENTS: 1_000, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0}),
    Panel("mnist", "mlp", "milli-conv", most=_CONV_STUDENT),
    Panel("mnist", "milli-conv", "mlp", most={GRADIENTS: 1_000, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0}),
    Panel("cifar10", "vgg11", "resnet18", most=GPU_ONLY),
    Panel("cifar10", "resnet18", "vgg11", most=GPU_ONLY),
]
CLAIMS = [
    Claim("mnist linear copied by mlp", "100× fewer queries", worth(), 100),
    Claim("mnist mlp copied by linear", "an initial 10× fewer queries", worth(), 10),
    Claim("mnist mlp copied by milli-conv", "works much better than the reverse", accuracy_at(GRADIENTS, 10)),
    Claim("mnist milli-conv copied by mlp", "works much worse than the reverse", accuracy_at(GRADIENTS, 10)),
    Claim("cifar10 resnet18 copied by vgg11", "10× fewer queries", times_fewer(), 10),
    Claim("cifar10 vgg11 copied by resnet18", "gradients help very little", times_fewer()),
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `milli-fig3.json` and `.png` into `out`; goes on where an earlier run stopped."""
    return Study("milli-fig3", settings).run(PANELS, CLAIMS)


def rows(found: dict[str, Any]) -> list[Row]:
    """The paper's sentences."""
    return told(found, PANELS, CLAIMS)
