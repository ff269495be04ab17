"""`leakmeter evade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def evade(
    attack: Annotated[str, typer.Argument(help="fgsm, bim, mifgsm, pgd, cw or boundary")],
    victim: options.Victim = None,
    data: options.Data = None,
    copy: Annotated[
        str | None, typer.Option("--copy", help="craft on this copy (substitute.safetensors), measure on the victim")
    ] = None,
    norm: Annotated[str | None, typer.Option("--norm", help="linf or l2")] = None,
    eps: Annotated[float | None, typer.Option("--eps", help="the largest distance allowed")] = None,
    target: Annotated[str | None, typer.Option("--target", help="a class, or second; none: any error")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="use this many test inputs")] = 200,
    settings: Annotated[list[str] | None, typer.Option("--set", "-S", help="an option, such as steps=40")] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED")] = 0,
    data_dir: options.DataDir = None,
    input_shape: options.InputShape = None,
    low: options.Low = None,
    high: options.High = None,
    classes: options.Classes = None,
    outputs: options.Outputs = None,
    budget: options.Budget = None,
    authorized_by: options.AuthorizedBy = None,
    key_env: options.KeyEnv = None,
    rps: options.Rps = None,
    concurrency: options.Concurrency = None,
    out: options.Out = Path("runs"),
    resume: options.Resume = None,
    device: options.Device = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> None:
    """Makes adversarial examples on a model, or on a copy of it, and measures them on the model.

    boundary asks for labels alone, and every label is counted; so it also works on a model behind an API. --resume
    goes on with all settings of a run that was stopped, and asks nothing twice.
    """
    from leakmeter.commands.evade_run import evade_to_run

    options.set_threads(threads)
    flags = {
        "victim": options.victim_flags(locals()),
        "data": {"name": data, "dir": data_dir and str(data_dir), "limit": limit},
        "budget": budget,
        "device": device and options.device(device),
    }
    asked = {
        "norm": norm,
        "eps": eps,
        "target": target,
        "seed": seed,
        "options": options.settings(settings or [], None),
    }
    for line in evade_to_run(attack, options.given(flags), asked, copy, out, resume, options.display(display)):
        typer.echo(line)
