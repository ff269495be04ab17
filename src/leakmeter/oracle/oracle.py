"""The only door to a victim: checks a question, enters it in the ledger, asks, logs, shows what the view shows."""

from __future__ import annotations

import threading

import numpy as np
import torch
from torch import Tensor

from leakmeter.errors import UsageError, VictimError
from leakmeter.oracle.answer import Answer, present
from leakmeter.oracle.explain import explain, work
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Ledger
from leakmeter.oracle.log import AnswerLog, digest, on_cpu
from leakmeter.oracle.replay import Replay
from leakmeter.oracle.view import View
from leakmeter.seeds import stream
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Responder


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
        cache: whether the attacker keeps its own copy of answers and does not ask the same row twice.
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
    ) -> None:
        if not hasattr(victim, "respond"):
            raise UsageError(f"expected a victim made by load_victim, got {type(victim).__name__}")
        self.view = View.parse(view) if isinstance(view, str) else view
        self.view.check(victim.spec, differentiable=victim.differentiable)
        self.spec: VictimSpec = victim.spec
        self.ledger = ledger if ledger is not None else Ledger(budget=budget)
        self.position = 0
        """The id of the last piece asked: what a checkpoint must remember."""
        self._responder, self._truth, self._seed, self._log = victim, truth or victim, seed, log
        self._native = View("logits" if self._truth.spec.outputs == "logits" else self._truth.spec.outputs)
        self._replay = Replay(self.ledger, log, remote=victim.remote) if log is not None else None
        self._cache: dict[bytes, dict[str, Tensor]] | None = {} if cache else None
        self._lock = threading.Lock()

    def query(self, x: Tensor | np.ndarray) -> Answer:
        """Asks one query per row, on the attack's account.

        Raises:
            BudgetExhausted: before the victim computes, if the rows do not all fit into what is left.
        """
        rows = self.spec.admit(x)
        if self._cache is not None:
            return self._query_cached(rows, self._cache)
        return self._ask(rows, ATTACK, self.view, self._responder)

    def judge(self, x: Tensor | np.ndarray) -> Answer:
        """The owner's own look at everything the victim outputs, on the evaluation account. Not for attacks."""
        return self._ask(self.spec.admit(x), EVALUATION, self._native, self._truth)

    def seek(self, position: int) -> None:
        """Goes on from a checkpoint that already holds the answers up to `position`."""
        self.position = position
        if self._replay is not None:
            self._replay.seek(position)

    def _ask(self, x: Tensor, account: str, view: View, responder: Responder) -> Answer:
        pieces = list(torch.split(x, responder.batch))
        known = [self._known(piece, account) for piece in pieces]
        fresh = [len(piece) for piece, (ask, columns) in zip(pieces, known, strict=True) if ask is None]
        explained = sum(fresh) if view.explanation else 0
        ids = iter(
            self.ledger.reserve(account, fresh, explanations=explained, work=explained * work(view)) if fresh else ()
        )
        answers = []
        for piece, (ask, columns) in zip(pieces, known, strict=True):
            if columns is None:
                ask = ask if ask is not None else next(ids)
                columns = self._compute(piece, ask, view, responder)
            assert ask is not None
            with self._lock:
                self.position = max(self.position, ask)
            answers.append(Answer(view, self.spec.classes, columns))
        return Answer.join(answers)

    def _known(self, piece: Tensor, account: str) -> tuple[int | None, dict[str, Tensor] | None]:
        """What is already paid for: the entry of this piece, and its answer if that was logged."""
        if not self._replay:
            return None, None
        assert self._log is not None
        with self._lock:
            record = self._replay.answer(digest(piece))
            if record is not None:
                return record.ask, self._log.read(record)
            return self._replay.reopen(account, len(piece)), None

    def _compute(self, x: Tensor, ask: int, view: View, responder: Responder) -> dict[str, Tensor]:
        noise = stream(self._seed, "answer", ask)
        with torch.inference_mode():
            outputs = _checked(responder.respond(x, noise), len(x), responder.spec)
            columns = present(view, outputs, responder.spec.outputs)
        columns = on_cpu(columns)
        if view.explanation is not None:
            columns["gradients"] = explain(view, responder, x, columns, noise).cpu()
            if not torch.isfinite(columns["gradients"]).all():
                raise VictimError(f"the victim {self.spec.name} explained an answer with NaN or infinity")
        if self._log is not None:
            self._log.append(ask, digest(x), columns)
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


def _checked(outputs: Tensor, rows: int, spec: VictimSpec) -> Tensor:
    """The victim's outputs, or what is wrong with them."""
    expected = (rows,) if spec.outputs == "labels" else (rows, spec.classes)
    if tuple(outputs.shape) != expected:
        raise VictimError(
            f"expected outputs of shape {expected} from the victim {spec.name}, got {tuple(outputs.shape)}"
        )
    if outputs.dtype.is_floating_point and not torch.isfinite(outputs).all():
        bad = int((~torch.isfinite(outputs)).reshape(rows, -1).any(1).sum())
        raise VictimError(f"the victim {spec.name} answered {bad} of {rows} queries with NaN or infinity")
    if spec.outputs == "labels" and not bool(((outputs >= 0) & (outputs < spec.classes)).all()):
        raise VictimError(f"expected labels from 0 to {spec.classes - 1} from the victim {spec.name}, got others")
    return outputs
