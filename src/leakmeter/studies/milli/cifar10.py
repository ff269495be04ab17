"""The CIFAR-10 panels of Milli et al., figures 2 to 4, at the scale of two cores.

The convolutional network is trained here; in place of VGG11 and ResNet-18 stands a stranger's ResNet-20, whose weights
are looked for in the folder LEAKMETER_VICTIMS. The paper's own panels run by `milli-fig2` to `-fig4` on a GPU.
"""

from __future__ import annotations

from typing import Any

from leakmeter.studies.milli._learning import GAUSSIAN, Panel, Study, told
from leakmeter.studies.milli._table import GRADIENTS, MEMBERSHIP, SMOOTHGRAD, SMOOTHGRAD_1000, Claim, accuracy_at, worth
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

STEPS = 300
_MOST = {GRADIENTS: 100, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0, MEMBERSHIP: 1_000}
PANELS = [
    Panel("cifar10", "milli-conv", "milli-conv", most=_MOST, steps=STEPS),
    Panel("cifar10", "milli-conv", "milli-conv", GAUSSIAN, {**_MOST, GRADIENTS: 10, MEMBERSHIP: 100}, STEPS),
    Panel("cifar10", "resnet20", "small-conv:16", most=_MOST, steps=STEPS),
    Panel(
        "cifar10", "resnet20", "leakmeter.studies.strangers:fresh_resnet20", most={**_MOST, GRADIENTS: 10}, steps=STEPS
    ),
]
FIGURE2, FIGURE4, FIGURE3, KNOWN = (panel.title for panel in PANELS)
FIGURES = {2: (FIGURE2, KNOWN), 3: (FIGURE3,), 4: (FIGURE4,)}
"""The panels of each of the paper's figures."""
CLAIMS = [
    Claim(FIGURE2, "reconstructed in 100 gradient queries", accuracy_at(GRADIENTS, 100)),
    Claim(FIGURE2, "reconstructed in 10,000 membership queries", accuracy_at(MEMBERSHIP, 1_000)),
    Claim(FIGURE2, "at least 100× fewer queries", worth(), 100),
    Claim(FIGURE4, "50% from 10 gradient queries", accuracy_at(GRADIENTS, 10), 0.5),
    Claim(FIGURE4, "11% from 10,000 membership queries", accuracy_at(MEMBERSHIP, 100)),
    Claim(FIGURE3, "10× fewer queries, or very little (ResNet-18 and VGG11)", worth(), 10),
    Claim(FIGURE3, "", accuracy_at(GRADIENTS, 100)),
    Claim(FIGURE3, "", accuracy_at(MEMBERSHIP, 1_000)),
    Claim(KNOWN, "10× fewer queries (ResNet-18)", worth(), 10),
    Claim(KNOWN, "", accuracy_at(GRADIENTS, 10)),
    Claim(KNOWN, "", accuracy_at(MEMBERSHIP, 1_000)),
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `milli-cifar10.json` and `.png` into `out`; goes on where an earlier run stopped."""
    return Study("milli-cifar10", settings).run(PANELS, CLAIMS)


def rows(found: dict[str, Any]) -> list[Row]:
    """The paper's sentences."""
    return told(found, PANELS, CLAIMS)
