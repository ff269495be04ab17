"""A detector replayed over one attack, and over as much honest data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from leakmeter.detectors import make_detector
from leakmeter.detectors.recorder import Recorder
from leakmeter.evaluation.score import Reference


class Detection(BaseModel):
    """`notes["detector"]`: when a detector would have fired."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    detector: str
    fired_at: int | None
    """The query at which it would have fired; None: never."""
    queries: int
    """How many it was shown: the first 5,000 at most."""
    benign: int | None = None
    """The test input at which honest data sets it off too, asked in the same number: a false alarm; None: none."""


def detect(name: str, recorder: Recorder, truth: Reference | None) -> Detection:
    """Replays the attack on record; the test inputs, with the victim's labels, are the control arm."""
    attack, control = make_detector(name), make_detector(name)
    recorder.replay(attack)
    if truth is not None:
        control.observe(truth.x[: attack.queries], truth.answer.labels[: attack.queries])
    return Detection(detector=name, fired_at=attack.fired_at, queries=attack.queries, benign=control.fired_at)
