"""`leakmeter certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def certify(
    victim: options.Victim = None,
    data: options.Data = None,
    sigma: Annotated[float, typer.Option("--sigma", help="the noise, on the scale of the inputs")] = 0.5,
    n: Annotated[int, typer.Option("--n", help="votes per input")] = 1000,
    alpha: Annotated[float, typer.Option("--alpha", help="how often one certificate may be wrong")] = 0.001,
    bound: Annotated[str, typer.Option("--bound", help="tight, renyi or pixeldp")] = "tight",
    target_radius: Annotated[
        float | None, typer.Option("--target-radius", help="stop as soon as this radius is decided")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="use only this many test inputs")] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED")] = 0,
    data_dir: options.DataDir = None,
    input_shape: options.InputShape = None,
    out: options.Out = Path("runs"),
    resume: options.Resume = None,
    device: options.Device = None,
    threads: options.Threads = None,
    executor: Annotated[
        str | None, typer.Option("--executor", help="where: local, local:N, ray or ray:ADDRESS; else in this process")
    ] = None,
    display: options.Display = None,
) -> None:
    """Certifies how far an input can be moved before the smoothed model changes its answer."""
    from leakmeter.commands.certify_run import certify_to_run

    flags = {
        "victim": options.victim_flags(locals()),
        "data": {"name": data, "dir": data_dir and str(data_dir), "limit": limit},
        "device": device and options.device(device),
        "threads": threads,
    }
    asked = {"sigma": sigma, "n": n, "alpha": alpha, "bound": bound, "target_radius": target_radius, "seed": seed}
    for line in certify_to_run(options.given(flags), asked, out, resume, options.display(display), executor):
        typer.echo(line)
