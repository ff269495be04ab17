"""`leakmeter audit`, `extract` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leakmeter.commands import options


def demo(out: options.Out = Path("runs"), display: options.Display = None) -> None:
    """A whole small audit on embedded data."""
    from leakmeter._audit.flow import audit as run_audit
    from leakmeter.demo import PLAN

    options.conclude(run_audit(PLAN, out=out, progress=options.display(display)))


def audit(
    plan: Annotated[Path | None, typer.Argument(help="a TOML plan; flags override it")] = None,
    victim: options.Victim = None,
    data: options.Data = None,
    data_dir: options.DataDir = None,
    view: Annotated[list[str] | None, typer.Option("--view", help="labels, top:K, probs, probs:D, logits")] = None,
    attack: Annotated[list[str] | None, typer.Option("--attack", help="an attack by name; repeat for more")] = None,
    defense: Annotated[list[str] | None, typer.Option("--defense", help="a defense; repeat for more")] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="repeat for several seeds")] = None,
    budget: options.Budget = None,
    input_shape: options.InputShape = None,
    low: options.Low = None,
    high: options.High = None,
    classes: options.Classes = None,
    outputs: options.Outputs = None,
    authorized_by: options.AuthorizedBy = None,
    key_env: options.KeyEnv = None,
    rps: options.Rps = None,
    concurrency: options.Concurrency = None,
    name: Annotated[str | None, typer.Option("--name", help="what to call the run")] = None,
    out: options.Out = Path("runs"),
    resume: options.Resume = None,
    device: options.Device = None,
    threads: options.Threads = None,
    executor: options.Executor = "local",
    display: options.Display = None,
) -> None:
    """Audits a model: attacks it, judges the copies, writes a report. Only audit models you own or may test."""
    from leakmeter._audit.flow import audit as run_audit
    from leakmeter.plan import make_plan

    flags: dict[str, Any] = {
        "name": name,
        "victim": options.victim_flags(locals()),
        "data": {"name": data, "dir": data_dir and str(data_dir)},
        "views": view,
        "attacks": attack and [{"name": each} for each in attack],
        "defenses": defense,
        "seeds": seed,
        "budget": budget,
        "device": device and options.device(device),
        "threads": threads,
    }
    content = options.merge(options.base_plan(plan, resume), options.given(flags))
    options.conclude(
        run_audit(make_plan(content), out=out, resume=resume, executor=executor, progress=options.display(display))
    )


def extract(
    attack: Annotated[str, typer.Argument(help="surrogate, dfme, codfe, dast, procedural, gradients, exact, ...")],
    victim: options.Victim = None,
    view: Annotated[str | None, typer.Option("--view", help="labels, top:K, probs, probs:D, logits, +gradient")] = None,
    budget: options.Budget = None,
    stops: Annotated[str | None, typer.Option("--stops", help="query counts for the curve, such as 100,1000")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", "-S", help="an option, such as pool=mnist")] = None,
    defense: Annotated[str | None, typer.Option("--defense", help="a defense around the victim")] = None,
    data: options.Data = None,
    data_dir: options.DataDir = None,
    input_shape: options.InputShape = None,
    low: options.Low = None,
    high: options.High = None,
    classes: options.Classes = None,
    outputs: options.Outputs = None,
    authorized_by: options.AuthorizedBy = None,
    key_env: options.KeyEnv = None,
    rps: options.Rps = None,
    concurrency: options.Concurrency = None,
    seed: Annotated[int | None, typer.Option("--seed", envvar="LEAKMETER_SEED")] = None,
    out: options.Out = Path("runs"),
    resume: options.Resume = None,
    device: options.Device = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> None:
    """Copies a model with one attack and writes a full run directory."""
    from leakmeter._audit.flow import audit as run_audit
    from leakmeter.plan import make_plan

    flags: dict[str, Any] = {
        "name": None if resume else f"extract-{attack}",
        "victim": options.victim_flags(locals()),
        "data": {"name": data, "dir": data_dir and str(data_dir)},
        "views": view and [view],
        "attacks": None
        if resume and not settings
        else [{"name": attack, **options.settings(settings or [], data_dir)}],
        "defenses": defense and [defense],
        "seeds": None if resume and seed is None else [seed or 0],
        "budget": budget,
        "stops": stops and options.numbers("--stops", stops),
        "device": device and options.device(device),
        "threads": threads,
    }
    base = options.base_plan(None, resume) or {"views": ["probs"]}
    options.conclude(
        run_audit(
            make_plan(options.merge(base, options.given(flags))),
            out=out,
            resume=resume,
            progress=options.display(display),
        )
    )
