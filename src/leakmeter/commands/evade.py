"""`leakmeter evade`: adversarial examples, what they do to the victim and how they look, in a run directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakmeter.commands import options
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from leakmeter.evasion.base import Evasion
    from leakmeter.plan import Plan
    from leakmeter.progress import Progress
    from leakmeter.runs.run import Run
    from leakmeter.victims.victim import Victim


def evade(
    context: typer.Context,
    attack: Annotated[str, typer.Argument(help="fgsm, bim, mifgsm, pgd, cw or boundary")],
    *,
    victim: options.VictimFlags,
    data: options.DataFlags,
    copy: Annotated[
        str | None, typer.Option("--copy", help="craft on this copy (substitute.safetensors), measure on the victim")
    ] = None,
    norm: Annotated[str | None, typer.Option("--norm", help="linf or l2")] = None,
    eps: Annotated[float | None, typer.Option("--eps", help="the largest distance allowed")] = None,
    target: Annotated[str | None, typer.Option("--target", help="a class, or second; none: any error")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="use this many test inputs")] = 200,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    model: options.ModelFlags,
    budget: options.Budget = None,
    run: options.RunFlags,
) -> None:
    """Makes adversarial examples on a model, or on a copy of it, and measures them on the model.

    boundary asks for labels alone, and every label is counted; so it also works on a model behind an API. --resume
    goes on with all settings of a run that was stopped, and asks nothing twice.
    """
    from leakmeter.runs.run import Run, fresh_path

    if run.resume is not None:
        options.refuse_beside_resume(context, "attack")
        path, content = run.resume, Run.open(run.resume).plan
        if content.get("attack") != attack:
            raise UsageError(f"{path} is no run of {attack}; give the attack it was started with, or start a new run")
    else:
        path = fresh_path(run.out, f"evade-{attack}")
        plan = {"victim": victim.section(model), "data": data.section(limit), "budget": budget, **run.section()}
        asked = {"norm": norm, "eps": eps, "target": target, "seed": seed, "options": options.settings(settings)}
        content = options.given({"attack": attack, "plan": plan, "asked": asked, "copy": copy})
    record = _evade_in(path, content, options.display(run.display))
    for key, value in record.items():
        if not isinstance(value, list):
            options.say(f"{key}: {value}")
    options.say(path)


def _evade_in(path: Path, content: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Attacks in the run directory `path`, new or not; what was paid for there is not asked again."""
    from leakmeter._audit.opening import fit_test, load_test, open_victim
    from leakmeter.compute import computing
    from leakmeter.evasion.base import ATTACKS
    from leakmeter.files import write_atomic
    from leakmeter.plan import make_plan
    from leakmeter.report.sheet import adversarial_png
    from leakmeter.runs.run import Run, environment
    from leakmeter.tensors import to_safetensors

    attack, copy = content["attack"], content.get("copy")
    plan = make_plan({**content["plan"], "name": f"evade-{attack}"})
    _check_budget(content, plan)
    test = load_test(plan)
    if test is None:
        raise UsageError("making adversarial examples needs test data; pass --data, for example --data digits")
    with computing(plan.threads):
        victim = open_victim(plan, test)
        if copy is None and ATTACKS[attack].needs_gradients:
            _ = victim.white_box  # before a folder is made: it may have none
        x, y = (column.to(plan.device) for column in fit_test(test, victim).labelled())
        run = Run.enter(path, content)
        with run.held():
            tried = _on_victim if copy is None else _on_copy
            x, found, record = tried(content, plan, victim, (x, y), run, progress)
            write_atomic(run.path / "examples.safetensors", to_safetensors({"examples": found.examples.cpu()}))
            told = {**content, "environment": environment(), **record}
            write_atomic(run.path / "evasion.json", json.dumps(told).encode())
            if x.dim() == 4:
                write_atomic(run.path / "adversarial.png", adversarial_png(x, found, victim.spec))
    return record


Tried = tuple["Tensor", "Evasion", dict[str, Any]]
"""The inputs that were attacked, what came of it, and the figures."""


def _on_copy(
    content: dict[str, Any], plan: Plan, victim: Victim, data: tuple[Tensor, Tensor], _: Run, progress: Progress
) -> Tried:
    """Crafts on the copy; the victim is the judge."""
    from leakmeter.evaluation.transfer import measure_transfer
    from leakmeter.models.saved import load_network

    network = load_network(Path(content["copy"])).to(plan.device)
    found = measure_transfer(content["attack"], network, victim, *data, progress=progress, **_settings(content))
    return data[0][found.rows], found.evasion, found.transfer.model_dump()


def _on_victim(
    content: dict[str, Any], _: Plan, victim: Victim, data: tuple[Tensor, Tensor], run: Run, progress: Progress
) -> Tried:
    """Follows the victim's own gradients, or asks it for nothing but labels, each of them counted."""
    from leakmeter.evaluation.intervals import exact
    from leakmeter.evasion.base import ATTACKS, evade
    from leakmeter.oracle.oracle import Oracle

    oracle = None
    if not ATTACKS[content["attack"]].needs_gradients:
        oracle = Oracle(victim, "labels", ledger=run.ledger(content["plan"].get("budget")), log=run.answers())
    settings = _settings(content) | {"low": victim.spec.low, "high": victim.spec.high}
    found = evade(content["attack"], oracle or victim.white_box, *data, progress=progress, **settings)
    won, n = int(found.success.sum()), len(found.success)
    return (
        data[0],
        found,
        {
            "norm": found.norm,
            "eps": found.eps,
            "n": n,
            "success": found.rate,
            "success_interval": exact(won, n).model_dump(),
            "median_distance": float(found.distance[found.success].median()) if won else None,
            "queries": 0 if oracle is None else oracle.ledger.spent(),
        },
    )


def _settings(content: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, as `evade` takes it."""
    asked: dict[str, Any] = content["asked"]
    target = asked.get("target")
    if target is not None and target.isdecimal():
        target = int(target)
    named = {"norm": asked.get("norm"), "eps": asked.get("eps"), "target": target, "seed": asked["seed"]}
    return {**named, **asked.get("options", {})}


def _check_budget(content: dict[str, Any], plan: Plan) -> None:
    from leakmeter.evasion.base import ATTACKS
    from leakmeter.victims.remote.victim import is_remote

    attack, copy, budget = content["attack"], content.get("copy"), content["plan"].get("budget")
    if ATTACKS[attack].needs_gradients or copy is not None:
        if budget is not None:
            what = "an attack on a copy" if copy is not None else f"{attack} follows gradients and"
            raise UsageError(f"{what} asks the victim nothing; leave out --budget")
    elif budget is None and is_remote(plan.victim.source):
        raise UsageError(f"{attack} asks a remote victim thousands of times an example; pass --budget")
