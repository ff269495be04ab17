"""A detector replayed over one attack, and over as much honest data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from leakmeter.detectors import make_detector
from leakmeter.detectors.recorder import Recorder


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


def detect(name: str, recorder: Recorder, honest: tuple[Tensor, Tensor] | None) -> Detection:
    """Replays the attack on record; honest inputs, with the victim's labels, are the control arm."""
    attack, control = make_detector(name), make_detector(name)
    recorder.replay(attack)
    if honest is not None:
        x, labels = (column[: attack.queries] for column in honest)
        control.observe(x, labels)
    return Detection(detector=name, fired_at=attack.fired_at, queries=attack.queries, benign=control.fired_at)
