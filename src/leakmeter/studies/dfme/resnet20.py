"""Section 6.3 of DFME on a real ResNet: is the mean of the logits negligible? Forward passes of a stranger's ResNet-20.

Its weights (`cifar10-resnet20.safetensors`) are looked for in the folder LEAKMETER_VICTIMS.
"""

from __future__ import annotations

from typing import Any

from leakmeter.data.catalogue import load
from leakmeter.evaluation.score import predict
from leakmeter.studies.dfme.logits import mean_row, recovery
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row
from leakmeter.studies.strangers import resnet20


def main(settings: StudyOptions) -> dict[str, Any]:
    """Writes `dfme-resnet20.json` into `out`."""
    record = settings.record("dfme-resnet20", claim="the mean of the true logits is negligible (section 6.3)")
    record.cell("cifar10/resnet20", lambda: _measure(settings))
    return record.write()


def rows(found: dict[str, Any]) -> list[Row]:
    """The mean of its logits."""
    return [mean_row(name, [cell]) for name, cell in found["cells"].items()]


def _measure(settings: StudyOptions) -> dict[str, Any]:
    x, y = load("cifar10", "test", settings.data_dir).labelled()
    x, y = (x[:50], y[:50]) if settings.quick else (x, y)
    logits = predict(resnet20(), x)
    return {"images": len(y), "accuracy": float((logits.argmax(1) == y).double().mean()), **recovery(logits)}
