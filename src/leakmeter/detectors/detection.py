"""A detector replayed over one attack, whose first questions are kept until its run is done, and over honest data."""

from __future__ import annotations

import threading
from pathlib import Path

from torch import Tensor

from leakmeter.detectors import LIMIT, Detector, make_detector, prepared, teachable
from leakmeter.oracle.log import AnswerLog
from leakmeter.settings import Settings


class Recorder:
    """An oracle's observer: keeps the first 5,000 rows and the labels they got, by the id of their piece.

    The answer log has no questions in it, and a resumed attack does not repeat those before its checkpoint: only what
    lies on disk shows a detector all of them, each once.
    """

    def __init__(self, folder: Path) -> None:
        self._log = AnswerLog(folder)
        self._known = {piece.ask: len(self._log.read(piece)["labels"]) for piece in self._log.answers()}
        self._lock = threading.Lock()

    def __call__(self, ask: int, x: Tensor, labels: Tensor) -> None:
        """Takes note of one piece, unless it is known or there are enough."""
        with self._lock:
            room = LIMIT - sum(self._known.values())
            if ask in self._known or room <= 0:
                return
            self._known[ask] = min(len(x), room)
        self._log.append(ask, b"", {"x": x[:room].cpu(), "labels": labels[:room].cpu()})

    def replay(self, detector: Detector) -> None:
        """Shows the detector all rows in the order of the ledger."""
        for piece in sorted(self._log.answers(), key=lambda piece: piece.ask):
            columns = self._log.read(piece)
            detector.observe(columns["x"], columns["labels"])

    def close(self) -> None:
        """Lets go of the file."""
        self._log.close()


class Detection(Settings):
    """`notes["detector"]`: when a detector would have fired."""

    detector: str
    fired_at: int | None
    """The query at which it would have fired; None: never."""
    queries: int
    """How many it was shown: the first 5,000 at most."""
    benign: int | None = None
    """The test input at which honest data sets it off too, asked in the same number: a false alarm; None: none."""


def detect(name: str, recorder: Recorder, honest: tuple[Tensor, Tensor] | None) -> Detection:
    """Replays the attack on record; honest inputs, with the victim's labels, are the control arm.

    A detector that learns from honest queries is taught one half of them, and the other half is the control.
    """
    known = None
    if honest is not None and teachable(make_detector(name)):
        x, labels = honest
        known, honest = (x[::2], labels[::2]), (x[1::2], labels[1::2])
    attack, control = prepared(name, known), prepared(name, known)
    recorder.replay(attack)
    if honest is not None:
        x, labels = (column[: attack.queries] for column in honest)
        control.observe(x, labels)
    return Detection(detector=name, fired_at=attack.fired_at, queries=attack.queries, benign=control.fired_at)
