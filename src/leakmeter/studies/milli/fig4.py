"""Figure 4 of Milli et al.: the queries are standard normal noise, the data unknown (section 5.3)."""

from __future__ import annotations

from typing import Any

from leakmeter.studies.milli._learning import GAUSSIAN, GPU_ONLY, Panel, Study, told
from leakmeter.studies.milli._table import GRADIENTS, MEMBERSHIP, SMOOTHGRAD, SMOOTHGRAD_1000, Claim, accuracy_at, worth
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

_RAW = {GRADIENTS: 1_000, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0}
PANELS = [
    Panel("mnist", "linear", "linear", GAUSSIAN, _RAW),
    Panel("mnist", "mlp", "mlp", GAUSSIAN, _RAW),
    Panel("mnist", "milli-conv", "milli-conv", GAUSSIAN, {**_RAW, GRADIENTS: 10, MEMBERSHIP: 100}),
    Panel("cifar10", "milli-conv", "milli-conv", GAUSSIAN, GPU_ONLY),
    Panel("cifar10", "vgg11", "vgg11", GAUSSIAN, GPU_ONLY),
    Panel("cifar10", "resnet18", "resnet18", GAUSSIAN, GPU_ONLY),
]
_MLP, _CONV = "mnist mlp, gaussian queries", "mnist milli-conv, gaussian queries"
CLAIMS = [
    Claim(_MLP, "at least 1000× fewer queries", worth(), 1000),
    Claim(_CONV, "84% from 10 gradient queries", accuracy_at(GRADIENTS, 10), 0.84),
    Claim(_CONV, "71% from 10,000 membership queries", accuracy_at(MEMBERSHIP, 10_000)),
    Claim(_CONV, "at least 1000× fewer queries", worth(), 1000),
    Claim("cifar10 milli-conv, gaussian queries", "50% from 10 gradient queries", accuracy_at(GRADIENTS, 10), 0.5),
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `milli-fig4.json` and `.png` into `out`; goes on where an earlier run stopped."""
    return Study("milli-fig4", settings).run(PANELS, CLAIMS)


def rows(found: dict[str, Any]) -> list[Row]:
    """The paper's sentences."""
    return told(found, PANELS, CLAIMS)
