"""What a run keeps, damaged: it is refused in a sentence, or says what it said before; counts never go down."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from mutations import mutated

from leakmeter._audit.flow import audit
from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.errors import Inconclusive, LeakmeterError
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Ledger, recorded
from leakmeter.oracle.limits import LimitsFile
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.runs.run import LEDGER, Run
from leakmeter.victims.load import load_victim

QUICK, LONG = 150, 10_000
SIZES = [pytest.param(QUICK, id="quick"), pytest.param(LONG, id="long", marks=pytest.mark.slow)]


def drop(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("times", SIZES)
def test_a_changed_checkpoint_is_never_loaded(tmp_path: Path, times: int) -> None:
    keep, chance = DiskCheckpoint(tmp_path / "one.pt"), random.Random(0)
    keep.save({"weights": torch.rand(50), "step": 3})
    whole = (tmp_path / "one.pt").read_bytes()
    for _ in range(times):
        if (changed := mutated(whole, chance)) == whole:
            continue
        (tmp_path / "one.pt").write_bytes(changed)
        with pytest.raises(Inconclusive, match="delete it to redo that part"):
            keep.load()


@pytest.mark.parametrize("times", SIZES)
def test_a_changed_ledger_is_refused_or_counts_the_same(tmp_path: Path, times: int) -> None:
    path, chance = tmp_path / LEDGER, random.Random(1)
    ledger = Ledger(path, budget=1000)
    for rows in (1, 64, 30):
        ledger.reserve(ATTACK, [rows, 7], explanations=rows, work=3 * rows)
        ledger.reserve(EVALUATION, [2])
    ledger.note_cached(ATTACK, 5)
    before = [ledger.entry(account) for account in (ATTACK, EVALUATION)]
    ledger.close()
    whole = path.read_bytes()
    for _ in range(times):
        drop(path)
        if not (changed := mutated(whole, chance)):
            continue
        path.write_bytes(changed)
        try:
            again = Ledger(path, budget=1000)
        except LeakmeterError:
            continue
        after = [again.entry(account) for account in (ATTACK, EVALUATION)]
        again.close()
        assert [(e.queries, e.explanations, e.work, e.cached) for e in after] == [
            (e.queries, e.explanations, e.work, e.cached) for e in before
        ]


@pytest.mark.parametrize("times", SIZES)
def test_changed_limits_are_refused_or_mended_from_the_ledgers(tmp_path: Path, times: int) -> None:
    path, chance = tmp_path / "leases.sqlite", random.Random(2)
    limits = LimitsFile(path, total=100)
    attempt = limits.begin("a")
    limits.take("a", attempt, ATTACK, 30)
    limits.take("a", attempt, EVALUATION, 9)
    limits.close()
    whole = path.read_bytes()
    for _ in range(times):
        drop(path)
        path.write_bytes(mutated(whole, chance))
        try:
            again = LimitsFile(path, total=100)
            again.catch_up("a", ATTACK, 30)
            again.catch_up("a", EVALUATION, 9)
            attempt = again.begin("b")
            with pytest.raises(LeakmeterError, match=r"budget|damaged"):
                again.take("b", attempt, ATTACK, 62)
        except LeakmeterError:
            continue
        finally:
            again.close()


@pytest.mark.parametrize("gone", ["ledger", "ledger and log", "empty ledger"])
def test_answers_and_checkpoints_without_their_ledger_are_refused(tmp_path: Path, gone: str) -> None:
    run = Run.enter(tmp_path / "run", {"a": 1})
    victim = load_victim(torch.nn.Linear(4, 3), low=0.0, high=1.0)
    ledger, log = run.ledger(100), run.answers()
    Oracle(victim, "probs", ledger=ledger, log=log).query(torch.rand(9, 4))
    run.checkpoint("game").save({"position": 1})
    ledger.close()
    log.close()
    drop(run.path / LEDGER)
    if gone == "empty ledger":
        (run.path / LEDGER).touch()
    if gone == "ledger and log":
        (run.path / "answers" / "answers.bin").unlink()
    with pytest.raises(Inconclusive, match="restore it or start a new run"):
        run.ledger(100)


def test_a_checkpoint_that_is_ahead_of_the_ledger_is_refused(tmp_path: Path) -> None:
    victim = load_victim(torch.nn.Linear(4, 3), low=0.0, high=1.0)
    oracle = Oracle(victim, "probs", ledger=Ledger(tmp_path / LEDGER, budget=10), log=AnswerLog(tmp_path))
    oracle.query(torch.rand(3, 4))
    oracle.seek(1)
    with pytest.raises(Inconclusive, match="never counted"):
        oracle.seek(2)


def test_the_total_is_remembered_by_the_ledgers_when_the_limits_are_lost(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import torch\ndef net():\n    return torch.nn.Linear(4, 3)\n")
    plan = {
        "victim": {"source": f"{tmp_path / 'shop.py'}:net", "low": 0.0, "high": 1.0},
        "attacks": [{"name": "surrogate", "recipe": {"steps": 5}}],
        "views": ["labels"],
        "seeds": [0, 1, 2],
        "budget": 40,
        "total": 60,
        "detectors": [],
    }
    first = audit(plan, out=tmp_path / "runs", executor="inline")
    asked = sum(sum(recorded(path).values()) for path in first.folder.rglob(LEDGER))
    assert asked <= 60
    assert {cell.status for cell in first.cells} == {"done", "failed"}
    drop(first.folder / "leases.sqlite")
    again = audit(plan, resume=first.folder, executor="inline")
    assert {cell.status for cell in again.cells} == {"done", "failed"}
    assert sum(sum(recorded(path).values()) for path in again.folder.rglob(LEDGER)) <= 60
