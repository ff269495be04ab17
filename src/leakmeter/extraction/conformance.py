"""The rules every attack must keep, as a check that third parties can run on theirs."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import torch
from torch import nn

from leakmeter.checkpoint import Checkpoint, DiskCheckpoint
from leakmeter.errors import BudgetExhausted, NotApplicable, UsageError
from leakmeter.extraction.base import Attack, AttackJob
from leakmeter.extraction.findings import Findings
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

_BUDGET = 200


def check_attack(attack: Attack, *, view: str = "probs", victim: Victim | None = None, budget: int = _BUDGET) -> None:
    """Runs `attack` against a small victim four times and raises UsageError naming the first rule it breaks."""
    victim = victim or _small_victim()
    with tempfile.TemporaryDirectory() as folder:
        first, findings, spent = _run(attack, victim, view, budget, Path(folder) / "first")
        _require(0 < spent <= budget, f"it must ask between 1 and {budget} queries, and asked {spent}")
        _check_findings(attack, findings)
        again, _, _ = _run(attack, victim, view, budget, Path(folder) / "again")
        _require(_same(first, again), "the same seed must give the same substitute, bit for bit")
        resumed, _, after = _run(attack, victim, view, budget, Path(folder) / "first")
        _require(after == spent, "a resumed run must not pay for an answer twice")
        _require(_same(first, resumed), "a resumed run must end with the same substitute")
        kept_nothing, _, _ = _run(attack, victim, view, budget, None)
        _require(_same(first, kept_nothing), "it must make the same substitute where nothing is kept on disk")
    outputs = first(victim.spec.sample(3, torch.Generator().manual_seed(0)))
    expected = (3, victim.spec.classes)
    _require(tuple(outputs.shape) == expected, f"the substitute must return {expected}, and returned {outputs.shape}")


def _run(
    attack: Attack, victim: Victim, view: str, budget: int, folder: Path | None
) -> tuple[nn.Module, Findings, int]:
    """One run that keeps what it pays for and what it saves in `folder`, and goes on from what is there."""
    if folder is None:
        return _attack(attack, Oracle(victim, view, budget), budget, None)
    folder.mkdir(exist_ok=True)
    with closing(Ledger(folder / "ledger.sqlite", budget=budget)) as ledger, closing(AnswerLog(folder / "log")) as log:
        return _attack(attack, Oracle(victim, view, ledger=ledger, log=log), budget, folder)


def _attack(attack: Attack, oracle: Oracle, budget: int, folder: Path | None) -> tuple[nn.Module, Findings, int]:
    def checkpoints(name: str) -> Checkpoint:
        assert folder is not None
        return DiskCheckpoint(folder / f"{name}.pt")

    job = AttackJob(0, torch.device("cpu"), stops=(budget,), checkpoints=None if folder is None else checkpoints)
    state = torch.get_rng_state()
    attack.check(oracle.spec, oracle.view)
    try:
        substitute, findings = attack.run(oracle, job)
    except BudgetExhausted as error:
        raise UsageError("the attack breaks a rule: it must return what it has when the budget is spent") from error
    except NotApplicable as error:
        raise UsageError(f"the attack breaks a rule: `check` must say it before `run` does: {error}") from error
    _require(torch.equal(state, torch.get_rng_state()), "it must leave torch's global random state alone")
    return substitute, findings, oracle.ledger.spent()


def _check_findings(attack: Attack, findings: Findings) -> None:
    _require(findings.class_entropy is not None, "its findings must say the class entropy of its answers")
    _require(findings.certificate is None, "a certificate is measured after the attack, never by it")
    named = "student" not in type(attack).model_fields or findings.student is not None
    _require(named, "an attack with the option `student` must say in its findings which student its copy is")


def _small_victim() -> Victim:
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)


def _same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(left, right) for left, right in pairs)


def _require(kept: bool, rule: str) -> None:
    if not kept:
        raise UsageError(f"the attack breaks a rule: {rule}")
