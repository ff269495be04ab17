"""`leakmeter audit`, `extract` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakmeter.commands import options

if TYPE_CHECKING:
    from leakmeter._audit.flow import Audit


def demo(
    out: options.Out = Path("runs"),
    quick: Annotated[bool, typer.Option("--quick", help="one cell: whether everything is in place")] = False,
    display: options.Display = None,
) -> int:
    """A whole small audit on embedded data."""
    progress = options.display(display)
    progress.say("opening the model of the demo")  # before what takes seconds to import

    from leakmeter._audit.flow import audit as run_audit
    from leakmeter.demo import PLAN, QUICK

    return _conclude(run_audit(QUICK if quick else PLAN, out=out, progress=progress))


def audit(
    plan: Annotated[Path | None, typer.Argument(help="a TOML plan; flags override it")] = None,
    *,
    victim: options.VictimFlags,
    data: options.DataFlags,
    view: Annotated[list[str] | None, typer.Option("--view", help="labels, top:K, probs, probs:D, logits")] = None,
    attack: Annotated[list[str] | None, typer.Option("--attack", help="an attack by name; repeat for more")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="public data that a thief has: a name or path")] = None,
    defense: Annotated[list[str] | None, typer.Option("--defense", help="a defense; repeat for more")] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="repeat for several seeds")] = None,
    budget: options.Budget = None,
    quick: Annotated[bool, typer.Option("--quick", help="a first, rough answer within a minute: one seed")] = False,
    minutes: Annotated[float | None, typer.Option("--minutes", help="about how long the learning may take")] = None,
    model: options.ModelFlags,
    name: Annotated[str | None, typer.Option("--name", help="what to call the run")] = None,
    run: options.RunFlags,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor", envvar="LEAKMETER_EXECUTOR", help="where: inline, local, local:N, ray or ray:ADDRESS"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what it would take, and stop")] = False,
) -> int:
    """Audits a model: attacks it, judges the copies, writes a report. Only audit models you own or may test."""
    flags: dict[str, Any] = {
        "name": name,
        "victim": victim.section(model),
        "data": data.section(),
        "views": view,
        "attacks": attack and [{"name": each} for each in attack],
        "pool": pool,
        "defenses": defense,
        "seeds": seed,
        "budget": budget,
        "quick": quick or None,
        "minutes": minutes,
        **run.section(),
    }
    if dry_run:
        return _preview(_base(plan, run.resume), flags, executor)
    return _conclude(_audit(plan, flags, run, executor))


def extract(
    attack: Annotated[str, typer.Argument(help="surrogate, dfme, codfe, dast, procedural, gradients, exact, ...")],
    *,
    victim: options.VictimFlags,
    view: Annotated[str | None, typer.Option("--view", help="labels, top:K, probs, probs:D, logits, +gradient")] = None,
    budget: options.Budget = None,
    stops: Annotated[str | None, typer.Option("--stops", help="query counts for the curve, such as 100,1000")] = None,
    settings: options.Settings = None,
    defense: Annotated[str | None, typer.Option("--defense", help="a defense around the victim")] = None,
    data: options.DataFlags,
    model: options.ModelFlags,
    seed: Annotated[int | None, typer.Option("--seed", envvar="LEAKMETER_SEED")] = None,
    run: options.RunFlags,
) -> int:
    """Copies a model with one attack and writes a full run directory."""
    chosen = {"name": attack, **options.settings(settings, data.data_dir)}
    flags = {
        "name": None if run.resume else f"extract-{attack}",
        "victim": victim.section(model),
        "data": data.section(),
        "views": [view] if view else None if run.resume else ["probs"],
        "attacks": None if run.resume and not settings else [chosen],
        "defenses": defense and [defense],
        "label_only": False,
        "seeds": None if run.resume and seed is None else [seed or 0],
        "budget": budget,
        "stops": stops and options.numbers("--stops", stops),
        **run.section(),
    }
    result = _audit(None, flags, run, "inline")
    code = _conclude(result)
    for cell in result.cells:
        if cell.status == "done":
            options.say(f"substitute: {result.folder / 'cells' / cell.id / 'substitute.safetensors'}")
    return code


def _base(plan: Path | None, resume: Path | None) -> dict[str, Any]:
    """What flags override: the plan given, or that of the run to go on with."""
    from leakmeter.plan import read_plan

    if resume is None or plan is not None:
        return {} if plan is None else read_plan(plan)

    from leakmeter.runs.run import Run

    return Run.open(resume).plan


def _preview(base: dict[str, Any], flags: dict[str, Any], executor: str | None) -> int:
    """Prints what the audit would take."""
    from leakmeter._audit.flow import preview
    from leakmeter.plan import make_plan

    for line in preview(make_plan(options.merge(base, options.given(flags))), executor).lines():
        typer.echo(line)
    return 0


def _audit(plan: Path | None, flags: dict[str, Any], run: options.RunFlags, executor: str | None) -> Audit:
    progress = options.display(run.display)
    if run.resume is not None:
        progress.say(f"going on with {run.resume}")  # before what takes seconds to import
    content = options.merge(_base(plan, run.resume), options.given(flags))
    if run.resume is None and isinstance(content.get("victim"), dict):
        source = str(content["victim"].get("source", "the model"))
        progress.say(f"opening {source.partition('?')[0].rpartition('@')[2]}")  # a key in an address is refused later

    from leakmeter._audit.flow import audit as run_audit
    from leakmeter.plan import make_plan

    return run_audit(make_plan(content), out=run.out, resume=run.resume, executor=executor, progress=progress)


def _conclude(result: Audit) -> int:
    """Prints the verdict; its exit code."""
    from leakmeter.report.text import verdict_text

    options.say(verdict_text(result))
    return result.exit_code
