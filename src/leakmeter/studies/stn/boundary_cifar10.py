"""Figure 7 of STN (appendix D.2): the Boundary attack beside PGD on CIFAR-10 in l2, on the networks of `stn-cifar10`.

The PGD lines are also what figures 2 and 3 show of CIFAR-10, at two sizes of noise and without any.
"""

from __future__ import annotations

from typing import Any

from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.stn._attacks import attack_rows
from leakmeter.studies.stn.boundary import attacked
from leakmeter.studies.stn.cifar10 import SIGMA, SMALL

ARMS = [("gaussian", SMALL), ("plain", 0.0), ("stability", SIGMA)]
SIZES = (0.25, 0.5, 1.0)


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `stn-boundary-cifar10.json` and `.png`."""
    count, steps = (4, 20) if settings.quick else (12, 100)
    record = settings.record("stn-boundary-cifar10", model="resnet20", images=count, steps=steps)
    arms = ARMS[1:2] if settings.quick else ARMS
    return attacked(settings, record, arms, "cifar10", count=count, steps=steps, sizes=SIZES)


def rows(found: dict[str, Any]) -> list[Row]:
    """What attacks leave."""
    return attack_rows(found["cells"], {})
