"""What detectors are replayed over: the first questions of an attack, kept until its run is done."""

from __future__ import annotations

import threading
from pathlib import Path

from torch import Tensor

from leakmeter.detectors import LIMIT, Detector
from leakmeter.oracle.log import AnswerLog


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
