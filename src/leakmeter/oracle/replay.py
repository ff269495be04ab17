"""What an earlier process already paid for, handed out again when the resumed attack asks the same questions.

The attack repeats itself from its last checkpoint, so each question after that point is matched by its digest to the
answer on record. A piece that was entered in the ledger but never logged died with its answer: a victim inside this
process is asked again under the same entry, a remote one may have answered, so its rows stay counted and the repeat
is a query of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from leakmeter.errors import Inconclusive
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog, LoggedAnswer

Key = bytes | tuple[str, int]
"""An answered piece is found by the digest of its question, a lost one by its account and size."""


@dataclass(frozen=True, slots=True)
class PaidPiece:
    """A piece already in the ledger; `answer` is where its answer lies, None where that was lost."""

    key: Key
    ask: int
    account: str
    rows: int
    answer: LoggedAnswer | None


class Replay:
    """The pieces after a position in the ledger that were paid for and not handed out yet."""

    def __init__(self, ledger: Ledger, log: AnswerLog, *, remote: bool) -> None:
        self._paid: dict[Key, list[PaidPiece]] = {}  # newest first
        self._waiting: Counter[str] = Counter()
        lost = {ask: (account, rows) for ask, account, rows in ledger.asks()}
        pieces = []
        for answer in log.answers():
            if answer.ask not in lost:
                raise Inconclusive(f"{log.path} holds answers that {ledger.path} never counted; restore the ledger")
            pieces.append(PaidPiece(answer.digest, answer.ask, *lost.pop(answer.ask), answer))
        if remote:
            ledger.note_unconfirmed(list(lost))
        else:
            pieces += [PaidPiece(key, ask, *key, None) for ask, key in lost.items()]
        self.put_back(pieces)

    def __bool__(self) -> bool:
        return bool(self._paid)

    def seek(self, position: int) -> None:
        """Forgets what the checkpoint at `position` already holds."""
        later = [piece for pieces in self._paid.values() for piece in pieces if piece.ask > position]
        self._paid.clear()
        self._waiting.clear()
        self.put_back(sorted(later, key=lambda piece: piece.ask))

    def take(self, question: bytes, account: str, rows: int) -> PaidPiece | None:
        """The oldest answer on record to this question, else a lost one of this size; each is handed out once."""
        for key in question, (account, rows):
            if key in self._paid:
                piece = self._paid[key].pop()
                if not self._paid[key]:
                    del self._paid[key]
                self._waiting[account] -= rows
                return piece
        return None

    def put_back(self, pieces: list[PaidPiece]) -> None:
        """Pieces in the order they were asked, to be handed out (again) before any others."""
        for piece in reversed(pieces):
            self._paid.setdefault(piece.key, []).append(piece)
            self._waiting[piece.account] += piece.rows

    def waiting(self, account: str) -> int:
        """Rows paid for and not handed out yet."""
        return self._waiting[account]
