"""`leakmeter train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def train(
    technique: Annotated[str, typer.Argument(help="plain, gaussian, stability, madry or trades")],
    data: Annotated[str, typer.Option("--data", help="a dataset's name, an .npz or an image folder")] = "digits",
    model: Annotated[str, typer.Option("--model", help="a network by name, such as lenet or mlp:256")] = "lenet",
    epochs: Annotated[int, typer.Option("--epochs", min=1)] = 10,
    settings: Annotated[list[str] | None, typer.Option("--set", "-S", help="an option, such as sigma=0.5")] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED")] = 0,
    data_dir: options.DataDir = None,
    out: options.Out = Path("runs"),
    device: options.Device = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> None:
    """Trains a network, plainly or to be robust, and keeps it where other commands can load it."""
    from leakmeter.commands.train_run import train_to_run

    options.set_threads(threads)
    path, accuracy = train_to_run(
        technique,
        data,
        model,
        epochs=epochs,
        options=options.settings(settings or [], None),
        seed=seed,
        data_dir=data_dir,
        out=out,
        device=options.device(device or "cpu"),
        progress=options.display(display),
    )
    typer.echo(f"accuracy {accuracy:.2%} on the test split of {data}")
    typer.echo(path)
