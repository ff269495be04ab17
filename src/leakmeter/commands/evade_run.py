"""Adversarial examples as a run directory: the examples, what they do to the victim, and how they look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import nn

from leakmeter._audit.opening import load_test, open_victim
from leakmeter.errors import UsageError
from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.transfer import measure_transfer
from leakmeter.evasion.base import ATTACKS, Evasion, evade
from leakmeter.files import write_atomic
from leakmeter.models.saved import load_network
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import make_plan
from leakmeter.progress import SILENT, Progress
from leakmeter.report.sheet import adversarial_png
from leakmeter.runs.run import Run, environment, fresh_path, without_none
from leakmeter.victims.remote.victim import is_remote
from leakmeter.victims.spec import VictimSpec


def evade_to_run(
    attack: str,
    plan: dict[str, Any],
    asked: dict[str, Any],
    copy: str | None,
    out: Path,
    resume: Path | None = None,
    progress: Progress = SILENT,
) -> list[str]:
    """Attacks the victim itself, or `copy` with the victim as the judge; returns what to print.

    A resumed attack takes everything from its folder, answers already paid for included.
    """
    content = {"attack": attack, "plan": plan, "asked": without_none(asked), "copy": copy}
    if resume is not None:
        content = _resumed(attack, resume)
        plan, copy = content["plan"], content.get("copy")
    checked = make_plan({**plan, "name": f"evade-{attack}"})
    budget = plan.get("budget")
    _check_budget(attack, budget, checked.victim.source, copy)
    test = load_test(checked)
    if test is None:
        raise UsageError("making adversarial examples needs test data; pass --data, for example --data digits")
    victim = open_victim(checked, test)
    gradients = copy is None and ATTACKS[attack].needs_gradients
    model: nn.Module | Oracle | None = victim.white_box if gradients else None
    x, y = (column.to(checked.device) for column in test.labelled())
    settings = _settings(content["asked"])
    run = Run.enter(resume or fresh_path(out, f"evade-{attack}"), content)
    with run.held():
        if copy is not None:
            network = load_network(Path(copy)).to(checked.device)
            thief = measure_transfer(attack, network, victim, x, y, progress=progress, **settings)
            found, record, x = thief.evasion, thief.transfer.model_dump(), x[thief.rows]
        else:
            if model is None:  # labels are enough: nothing but labels, each of them counted
                model = Oracle(victim, "labels", ledger=run.ledger(budget), log=run.answers())
            found = evade(attack, model, x, y, progress=progress, **settings, **_box(victim.spec))
            record = _record(found, model.ledger.spent() if isinstance(model, Oracle) else 0)
        write_atomic(run.path / "examples.safetensors", safetensors.torch.save({"examples": found.examples.cpu()}))
        told = {**without_none(content), "environment": environment(), **record}
        write_atomic(run.path / "evasion.json", json.dumps(told).encode())
        if x.dim() == 4:
            write_atomic(run.path / "adversarial.png", adversarial_png(x, found, victim.spec))
    return [*(f"{key}: {value}" for key, value in record.items() if not isinstance(value, list)), str(run.path)]


def _resumed(attack: str, path: Path) -> dict[str, Any]:
    content = Run.open(path).plan
    if content.get("attack") != attack:
        raise UsageError(f"{path} is no run of {attack}; give the attack it was started with, or start a new run")
    return content


def _settings(asked: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, as `evade` takes it."""
    options: dict[str, Any] = asked.get("options", {})
    target = asked.get("target")
    if target is not None and target.isdecimal():
        target = int(target)
    return {"norm": asked.get("norm"), "eps": asked.get("eps"), "target": target, "seed": asked["seed"], **options}


def _check_budget(attack: str, budget: int | None, source: str, copy: str | None) -> None:
    if ATTACKS[attack].needs_gradients or copy is not None:
        if budget is not None:
            what = "an attack on a copy" if copy is not None else f"{attack} follows gradients and"
            raise UsageError(f"{what} asks the victim nothing; leave out --budget")
    elif budget is None and is_remote(source):
        raise UsageError(f"{attack} asks a remote victim thousands of times an example; pass --budget")


def _box(spec: VictimSpec) -> dict[str, Any]:
    return {"low": spec.low, "high": spec.high}


def _record(found: Evasion, queries: int) -> dict[str, Any]:
    won = int(found.success.sum())
    distances = found.distance[found.success]
    return {
        "norm": found.norm,
        "eps": found.eps,
        "n": len(found.success),
        "success": found.rate,
        "success_interval": exact(won, len(found.success)).model_dump(),
        "median_distance": float(distances.median()) if won else None,
        "queries": queries,
    }
