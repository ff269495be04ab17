"""The rules every attack must keep, as a check that third parties can run on theirs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

from leakmeter.errors import BudgetExhausted, UsageError
from leakmeter.extraction.base import Attack, Job
from leakmeter.oracle.oracle import Oracle
from leakmeter.runs.run import Run
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

_BUDGET = 200


def check_attack(attack: Attack, *, view: str = "probs", victim: Victim | None = None, budget: int = _BUDGET) -> None:
    """Runs `attack` against a small victim three times and raises UsageError naming the first rule it breaks."""
    victim = victim or _small_victim()
    first, spent = _run(attack, victim, view, budget)
    again, _ = _run(attack, victim, view, budget)
    _require(0 < spent <= budget, f"it must ask between 1 and {budget} queries, and asked {spent}")
    _require(_same(first, again), "the same seed must give the same substitute, bit for bit")
    with tempfile.TemporaryDirectory() as folder:
        run = Run.enter(Path(folder) / "run", {"name": "conformance"})
        kept, spent_first = _run(attack, victim, view, budget, run)
        resumed, spent_after = _run(attack, victim, view, budget, run)
    _require(spent_after == spent_first, "a resumed run must not pay for an answer twice")
    _require(_same(kept, resumed) and _same(first, kept), "a resumed run must end with the same substitute")
    outputs = first(victim.spec.sample(3, torch.Generator().manual_seed(0)))
    expected = (3, victim.spec.classes)
    _require(tuple(outputs.shape) == expected, f"the substitute must return {expected}, and returned {outputs.shape}")


def _run(attack: Attack, victim: Victim, view: str, budget: int, run: Run | None = None) -> tuple[nn.Module, int]:
    ledger, log = (run.ledger(budget), run.answers()) if run else (None, None)
    oracle = Oracle(victim, view, budget, ledger=ledger, log=log)
    job = Job(0, torch.device("cpu"), stops=(budget,), _run=run)
    state = torch.get_rng_state()
    try:
        substitute, spent = attack.run(oracle, job), oracle.ledger.spent()
    except BudgetExhausted as error:
        raise UsageError("the attack breaks a rule: it must return what it has when the budget is spent") from error
    finally:
        oracle.ledger.close()
        if log is not None:
            log.close()
    _require(torch.equal(state, torch.get_rng_state()), "it must leave torch's global random state alone")
    return substitute, spent


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
