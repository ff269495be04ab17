"""SmoothGrad's two noises beside the raw gradient: a third of the data's spread, and appendix D's thousand times it.

The paper finds no difference between gradients and SmoothGrad and gives its noise in appendix D only. A small noise
leaves the gradient nearly as it is (`smoothgrad-maps` has the cosines), so only the large one tests the sentence.
Every seed has its own victim.
"""

from __future__ import annotations

from typing import Any

from leakmeter.studies.milli._learning import Panel, Study, told
from leakmeter.studies.milli._table import GRADIENTS, MEMBERSHIP, SMOOTHGRAD, SMOOTHGRAD_1000, Claim, accuracy_at, gap
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

_MOST = {GRADIENTS: 100, SMOOTHGRAD: 100, SMOOTHGRAD_1000: 100, MEMBERSHIP: 0}
PANELS = [Panel("mnist", "mlp", "mlp", most=_MOST)]
_SAME = "no difference between gradients and SmoothGrad"
CLAIMS = [
    *(Claim("mnist mlp", "", accuracy_at(arm, n)) for n in (10, 100) for arm in (GRADIENTS, SMOOTHGRAD_1000)),
    *(Claim("mnist mlp", _SAME, gap(GRADIENTS, SMOOTHGRAD, n), -1) for n in (10, 100)),
    *(Claim("mnist mlp", f"{_SAME}, appendix D", gap(GRADIENTS, SMOOTHGRAD_1000, n), -1) for n in (10, 100)),
]


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `milli-noise.json` and `.png` into `out`; goes on where an earlier run stopped."""
    return Study("milli-noise", settings).run(PANELS, CLAIMS)


def rows(found: dict[str, Any]) -> list[Row]:
    """The paper's sentences."""
    return told(found, PANELS, CLAIMS)
