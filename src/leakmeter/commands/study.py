"""`leakmeter study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options
from leakmeter.errors import UsageError

_VICTIM = ("smoothgrad-maps", "stn-imagenet")
_DATA = ("smoothgrad-maps", "codfe-fig2", "codfe-table1", "codfe-table3")


def study(
    name: Annotated[str | None, typer.Argument(help="a study; without one, their names and what each does")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="folder for its JSON and figures (results/NAME; with --data results/NAME-DATA)"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED", help="the first seed")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="how many seeds")] = 3,
    listed: Annotated[bool, typer.Option("--list", help="what results/ holds of each, or of NAME")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="a small version that shows the shape only")] = False,
    victim: Annotated[
        str | None, typer.Option("--victim", help="smoothgrad-maps, stn-imagenet: a model of yours")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="smoothgrad-maps: the dataset that goes with it; CoDFe's: one of two")
    ] = None,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> None:
    """Runs one of the papers' experiments, or ours, and writes its numbers and figure; prints one line a number."""
    from leakmeter.compute import computing
    from leakmeter.studies import ROWS, STUDIES, about
    from leakmeter.studies.held import content, held
    from leakmeter.studies.options import StudyOptions

    if name is None:
        for each in STUDIES:
            options.say(f"{each:24} {held(each) + '; ' if listed else ''}{about(each)}")
        return
    run, tell = STUDIES[name], ROWS[name]
    if listed:
        options.say("\n".join(row.line() for row in tell(content(name))))
        return
    for flag, given, takes in (("--victim", victim, _VICTIM), ("--data", data, _DATA)):
        if given and name not in takes:
            raise UsageError(f"the study '{name}' has no {flag}; it is for {', '.join(takes)}")
    settings = StudyOptions(
        out or Path("results") / (f"{name}-{data}" if data else name),
        seed,
        seeds,
        quick,
        data_dir,
        options.device(device or "cpu"),
        options.display(display),
        victim,
        data,
    )
    with computing(threads or 1):
        found = run(settings)
    for row in tell(found):
        options.say(row.line())
    options.say(settings.out)
