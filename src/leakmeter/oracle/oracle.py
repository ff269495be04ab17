"""The only door to a victim: checks a question, enters it in the ledger, asks, logs, shows what the view shows."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from leakmeter.errors import BudgetExhausted, Inconclusive, UsageError, VictimError
from leakmeter.oracle.answer import Answer, present, shown_classes
from leakmeter.oracle.explanations.base import Scores
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Ledger
from leakmeter.oracle.log import AnswerLog, on_cpu
from leakmeter.oracle.replay import PaidPiece, Replay
from leakmeter.oracle.view import View
from leakmeter.seeds import stream
from leakmeter.tensors import digest
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Question, Responder


class Oracle:
    """A victim behind its API, with an honest count.

    Args:
        victim: what `load_victim` returned, or a defense around it.
        view: what answers show, such as `"probs"`, `"top:3"` or `"logits+gradient"`.
        budget: the most rows the attack may ask; None: no limit.
        seed: seeds whatever is random on the server's side (SmoothGrad, noisy defenses).
        ledger: where to count; in memory unless given.
        log: where to keep answers; nowhere unless given. Answers already there are replayed, not asked again.
        truth: whom `judge` asks: the undefended victim, where `victim` is a defense.
        cache: whether the attacker keeps its own copy of answers and does not ask the same row twice; it dies with the
            process, so it does not go with a log.
        undo: what an attacker who knows the defense makes of an answer, from that answer alone.
        observer: is shown every piece the attack asks, replayed ones too: its id, its rows, the labels they were given.
    """

    def __init__(
        self,
        victim: Responder,
        view: str | View = "probs",
        budget: int | None = None,
        *,
        seed: int = 0,
        ledger: Ledger | None = None,
        log: AnswerLog | None = None,
        truth: Responder | None = None,
        cache: bool = False,
        undo: Callable[[Answer], Answer] | None = None,
        observer: Callable[[int, Tensor, Tensor], None] | None = None,
    ) -> None:
        if not hasattr(victim, "respond"):
            raise UsageError(f"expected a victim made by load_victim, got {type(victim).__name__}")
        if cache and log is not None:
            raise UsageError("expected cache=True or a log, got both: a client's cache does not survive a kill")
        if ledger is not None and budget not in (None, ledger.budget):
            raise UsageError(f"expected the budget of the ledger ({ledger.budget}) or none, got {budget}")
        self.view = View.parse(view) if isinstance(view, str) else view
        self.view.check(victim)
        self.spec: VictimSpec = victim.spec
        self.ledger = ledger if ledger is not None else Ledger(budget=budget)
        self.position = 0
        """The id of the last piece asked: what a checkpoint must remember."""
        self._responder, self._truth, self._seed, self._log = victim, truth or victim, seed, log
        self._native = View(self._truth.spec.outputs)
        self.remote = self._truth.remote
        """Whether asking costs the owner more than time."""
        self._replay = Replay(self.ledger, log, remote=victim.remote) if log is not None else None
        self.lost = self.ledger.spent() - self._replay.waiting(ATTACK) if self._replay is not None else 0
        """Rows that earlier processes asked and never heard the answers to: counted, and not to be had."""
        self._cache: dict[bytes, dict[str, Tensor]] | None = {} if cache else None
        self._undo, self._observer = undo, observer
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int | None:
        """Rows the attack may still ask, replayed ones among them; None: no limit.

        Attacks look here, not in the ledger, where the rows of a resumed run are spent before they are asked again.
        """
        left = self.ledger.remaining
        with self._lock:
            return left if left is None or self._replay is None else left + self._replay.waiting(ATTACK)

    def query(self, x: Tensor | np.ndarray) -> Answer:
        """Asks one query per row, on the attack's account.

        Raises:
            BudgetExhausted: before the victim computes, if the rows do not all fit into what is left.
        """
        rows = self.spec.admit(x)
        if self._cache is not None:
            answer = self._query_cached(rows, self._cache)
        else:
            answer = self._ask(rows, ATTACK, self.view, self._responder)
        return answer if self._undo is None else self._undo(answer)

    def query_up_to_budget(self, x: Tensor) -> Answer:
        """Asks as many of the first rows as the budget allows; fewer answers than rows tell that it has ended.

        In pieces: a repeat that a remote victim makes necessary and the budget cannot pay loses one, and not all.

        Raises:
            BudgetExhausted: if no row could be answered.
        """
        answers: list[Answer] = []
        while len(x) or not answers:
            piece = x[: self._responder.batch]
            try:
                answers.append(self.query(piece))
            except BudgetExhausted as error:
                # Rows paid for and not yet repeated count as left, but pay for these only if these are a repeat.
                fits = [n for n in (error.remaining, self.ledger.remaining or 0) if 0 < n < len(piece)]
                if fits:
                    x = piece[: max(fits)]
                    continue
                if not answers:
                    raise
                break
            x = x[len(piece) :]
        return Answer.join(answers)

    def judge(self, x: Tensor | np.ndarray) -> Answer:
        """The owner's own look at everything the victim outputs, on the evaluation account. Not for attacks."""
        return self._ask(self.spec.admit(x), EVALUATION, self._native, self._truth)

    def serve(self, x: Tensor | np.ndarray) -> Answer:
        """What honest users are served: all that comes through the defense, on the evaluation account."""
        return self._ask(self.spec.admit(x), EVALUATION, View(self.spec.outputs), self._responder, "served ")

    def seek(self, position: int) -> None:
        """Goes on from a checkpoint that already holds the answers up to `position`."""
        if position > self.ledger.last:
            raise Inconclusive(
                f"the checkpoint holds answers that {self.ledger.path} never counted; restore the ledger, or start a "
                "new run"
            )
        self.position = position
        if self._replay is not None:
            self._replay.seek(position)

    def _ask(self, x: Tensor, account: str, view: View, responder: Responder, how: str = "") -> Answer:
        pieces = torch.split(x, responder.batch) if len(x) > responder.batch else (x,)
        topic = f"{account} {how}{view}"
        known = [self._known(piece, account, topic) for piece in pieces]
        asks = self._reserve(account, view, pieces, known)
        answers = []
        with self._heard(asks, responder):
            for piece, paid in zip(pieces, known, strict=True):
                ask = asks[0] if paid is None else paid.ask
                if paid is None or paid.answer is None:
                    question = Question(stream(self._seed, "answer", ask), partial(self._charge, account))
                    columns = self._compute(piece, question, view, responder)
                    if self._log is not None:
                        self._log.append(ask, digest(piece, topic), columns)
                else:
                    assert self._log is not None
                    columns = self._log.read(paid.answer)
                if paid is None:
                    asks.pop(0)
                with self._lock:
                    self.position = max(self.position, ask)
                answers.append(Answer(view, self.spec.classes, columns))
                if self._observer is not None and account == ATTACK:
                    self._observer(ask, piece, answers[-1].labels)
        return Answer.join(answers)

    @contextmanager
    def _heard(self, asks: list[int], responder: Responder) -> Iterator[None]:
        """Marks what is left in `asks` when the block fails: a remote victim may have answered it."""
        try:
            yield
        except BaseException:
            if responder.remote:
                self.ledger.note_unconfirmed(asks)
            raise

    def _charge(self, account: str, rows: int) -> None:
        """Counts rows that are sent again: of the two times one will never be heard."""
        self.ledger.note_unconfirmed(self.ledger.reserve(account, [rows]))

    def _known(self, piece: Tensor, account: str, topic: str) -> PaidPiece | None:
        """What an earlier process paid for this piece."""
        if not self._replay:
            return None
        question = digest(piece, topic)
        with self._lock:
            return self._replay.take(question, account, len(piece))

    def _reserve(
        self, account: str, view: View, pieces: tuple[Tensor, ...], known: list[PaidPiece | None]
    ) -> list[int]:
        fresh = [len(piece) for piece, paid in zip(pieces, known, strict=True) if paid is None]
        if not fresh:
            return []
        explained = 0 if view.explanation is None else sum(fresh)
        computed = view.explanation is not None and not view.read_off(self._responder)
        work = explained * view.explanation.work(self._responder) if computed and view.explanation is not None else 0
        try:
            asks = self.ledger.reserve(account, fresh, explanations=explained, work=work)
            if work and self._responder.remote:  # what its server would compute unasked is asked of it here
                self.ledger.reserve(EVALUATION, [work])
            return asks
        except BudgetExhausted as error:
            waiting = 0
            if self._replay is not None:
                with self._lock:
                    self._replay.put_back([paid for paid in known if paid is not None])
                    waiting = self._replay.waiting(account)
            raise BudgetExhausted(sum(map(len, pieces)), error.remaining + waiting) from None

    def _compute(self, x: Tensor, question: Question, view: View, responder: Responder) -> dict[str, Tensor]:
        spec, own = responder.spec, view.read_off(responder)
        with torch.inference_mode():
            # The victim gets a copy: one that works in place must not change the attacker's queries.
            if own:
                answered, maps = responder.respond_explained(x.clone(), question)  # type: ignore[attr-defined]
            else:
                answered, maps = responder.respond(x.clone(), question), None
            outputs = _checked(answered, len(x), spec)
        columns = on_cpu(present(view, outputs, spec.outputs))
        if maps is not None:
            columns |= on_cpu(_read_off(maps, view, columns, question))
        elif view.explanation is not None:
            classes = shown_classes(view, columns) if spec.classes > 1 else None
            mine = Question(question.noise, partial(self._charge, EVALUATION))
            columns |= on_cpu(_explained(x, view, Scores(responder, mine, view.kind == "logits", classes)))
        return columns

    def _query_cached(self, x: Tensor, cache: dict[bytes, dict[str, Tensor]]) -> Answer:
        keys = [digest(row) for row in x]
        missing = {key: i for i, key in enumerate(keys) if key not in cache}
        if missing:
            asked = self._ask(x[list(missing.values())], ATTACK, self.view, self._responder)
            for i, key in enumerate(missing):
                cache[key] = {name: column[i : i + 1] for name, column in asked.columns.items()}
        self.ledger.note_cached(ATTACK, len(x) - len(missing))
        return Answer.join([Answer(self.view, self.spec.classes, cache[key]) for key in keys])


def _explained(x: Tensor, view: View, scores: Scores) -> dict[str, Tensor]:
    """The columns of the explanation, protected as the view says."""
    assert view.explanation is not None
    shown = _protected(view.explanation.explain(x, scores), view, scores.noise)
    if not torch.isfinite(shown).all():
        raise VictimError(f"the victim {scores.spec.name} explained an answer with NaN or infinity")
    return {view.explanation.column: shown, **view.explanation.beside(shown, scores)}


def _read_off(maps: Tensor, view: View, columns: dict[str, Tensor], question: Question) -> dict[str, Tensor]:
    """The columns of an explanation that came with the answer, of the classes that are shown."""
    assert view.explanation is not None
    classes = shown_classes(view, columns) if maps.shape[1] > 1 else None
    if classes is not None:
        maps = maps[torch.arange(len(maps))[:, None], classes.to(maps.device)]
    return {view.explanation.column: _protected(maps, view, question.noise)}


def _protected(shown: Tensor, view: View, noise: torch.Generator) -> Tensor:
    for protection in view.protections:
        shown = protection.protect(shown, noise)
    return shown


def _checked(outputs: Tensor, rows: int, spec: VictimSpec) -> Tensor:
    """The victim's outputs, or what is wrong with them."""
    expected = (rows,) if spec.outputs == "labels" else (rows, spec.classes)
    if tuple(outputs.shape) != expected:
        raise VictimError(
            f"expected outputs of shape {expected} from the victim {spec.name}, got {tuple(outputs.shape)}"
        )
    if outputs.dtype.is_floating_point and not math.isfinite(outputs.sum()) and not torch.isfinite(outputs).all():
        bad = int((~torch.isfinite(outputs)).reshape(rows, -1).any(1).sum())
        raise VictimError(f"the victim {spec.name} answered {bad} of {rows} queries with NaN or infinity")
    labels = range(max(2, spec.classes))  # a single score names two classes
    if spec.outputs == "labels" and not bool(torch.isin(outputs, torch.arange(len(labels)).to(outputs)).all()):
        raise VictimError(f"expected labels from 0 to {labels[-1]} from the victim {spec.name}, got others")
    return outputs
