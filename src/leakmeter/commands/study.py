"""`leakmeter study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def study(
    name: Annotated[str | None, typer.Argument(help="a study; without one, their names")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for its JSON and figures (results/NAME)")] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED", help="the first seed")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="how many seeds")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="a small version that shows the shape only")] = False,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> None:
    """Runs one of the papers' experiments, or ours, and writes its numbers and figure."""
    from leakmeter.studies import STUDIES

    if name is None:
        typer.echo("\n".join(STUDIES))
        raise typer.Exit
    options.set_threads(threads)
    folder = out or Path("results") / name
    settings = {
        "seed": seed,
        "seeds": seeds,
        "quick": quick,
        "data_dir": data_dir,
        "device": options.device(device or "cpu"),
    }
    STUDIES[name](folder, **settings, progress=options.display(display))
    typer.echo(folder)
