"""DFME on a stranger's ResNet-20 where small batches and a quick generator make the most of few queries.

At the paper's settings 500,000 queries are 560 steps of the generator; at 100,000 the copy is at chance (`dfme-fig7`).
Here they are four times as many, each longer, and the student learns from earlier answers again, as in MAZE. Chosen on
another seed, by accuracy on training images.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakmeter.studies.dfme import fig7
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row

OPTIONS: dict[str, Any] = {
    **fig7.ARMS["dfme"],
    "batch": 32,
    "generator_lr": 3e-3,
    "replays": 10,
    "milestones": (0.7, 0.9),
}


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `dfme-replays.json` and the last of what was asked."""
    record = settings.record("dfme-replays", victim="resnet20", options=OPTIONS)
    for number in settings.numbers:
        record.cell(f"dfme with replays/seed{number}", partial(fig7.stolen, settings, "dfme", number, **OPTIONS))
    return record.content


def rows(found: dict[str, Any]) -> list[Row]:
    """Accuracy of the copy at the end; chance is a tenth."""
    return fig7.rows(found)
