"""`leakmeter watch`: from an access log to who holds how good a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def watch(
    log: Annotated[
        str, typer.Argument(help="a .csv, .jsonl or .parquet file, a folder of them, a .db, postgresql://…")
    ],
    *,
    victim: options.VictimFlags,
    data: options.DataFlags,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="a TOML plan with [log] and [policy]; flags override")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-S", help="a key of [log], such as client=user or honest_column=staff")
    ] = None,
    model: options.ModelFlags,
    out: options.Out = Path("runs"),
    state: Annotated[
        Path | None, typer.Option("--state", help="what it remembers (default: watch-state in --out)")
    ] = None,
    threads: options.Threads = None,
    display: options.Display = None,
) -> int:
    """Reads an access log and says which client holds how good a copy; run again, it goes on from its state."""
    from leakmeter.plan import make_plan, read_plan
    from leakmeter.watch.flow import watch as run_watch
    from leakmeter.watch.report import watch_text

    flags = {
        "victim": victim.section(model),
        "data": data.section(),
        "log": options.settings(settings),
        "threads": threads,
    }
    content = options.merge({} if plan is None else read_plan(plan), options.given(flags))
    result = run_watch(log, make_plan(content), out=out, state=state, progress=options.display(display))
    options.say(watch_text(result))
    options.say(f"report: {result.folder / 'report.html'}")
    return result.exit_code
