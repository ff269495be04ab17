"""What an earlier process already paid for, handed out again when the resumed attack asks the same questions.

The attack repeats itself from its last checkpoint, so each question after that point is matched by its digest to the
answer on record. A piece that was entered in the ledger but never logged died with its answer: a victim inside this
process is asked again under the same entry, a remote one may have answered, so its rows stay counted and the repeat
is a query of its own.
"""

from __future__ import annotations

from collections import defaultdict, deque

from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog, Record


class Replay:
    """The answers and open entries after a position in the ledger."""

    def __init__(self, ledger: Ledger, log: AnswerLog, *, remote: bool) -> None:
        self._answers: dict[bytes, deque[Record]] = defaultdict(deque)
        self._open: dict[tuple[str, int], deque[int]] = defaultdict(deque)
        logged = set()
        for record in log.records():
            self._answers[record.digest].append(record)
            logged.add(record.ask)
        for ask, account, rows in ledger.asks_after(0):
            if ask in logged:
                continue
            if remote:
                ledger.note_unconfirmed(account, rows)
            else:
                self._open[account, rows].append(ask)
        self.last = max(logged, default=0)

    def __bool__(self) -> bool:
        return any(self._answers.values()) or any(self._open.values())

    def seek(self, position: int) -> None:
        """Forgets what the checkpoint at `position` already holds."""
        for waiting in self._answers.values():
            while waiting and waiting[0].ask <= position:
                waiting.popleft()
        for asks in self._open.values():
            while asks and asks[0] <= position:
                asks.popleft()

    def answer(self, question: bytes) -> Record | None:
        """The oldest answer on record to this question, handed out once."""
        waiting = self._answers.get(question)
        return waiting.popleft() if waiting else None

    def reopen(self, account: str, rows: int) -> int | None:
        """An entry already paid whose answer was lost, if there is one of this size."""
        asks = self._open.get((account, rows))
        return asks.popleft() if asks else None
