"""`leakmeter ls`, `report` and `compare`: runs already made, without the victim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options


def list_runs(out: options.Out = Path("runs")) -> None:
    """Lists the runs in a folder."""
    from leakmeter.runs.listing import list_runs as rows

    for row in rows(out):
        typer.echo(row)


def report(run: Annotated[Path, typer.Argument(help="a run directory, or its results.json")]) -> None:
    """Rebuilds the reports of a run, without the victim."""
    from leakmeter.report.write import write_reports
    from leakmeter.results import AuditResult

    folder = run if run.is_dir() else run.parent
    write_reports(AuditResult.read(run), folder)
    typer.echo(folder / "report.html")


def compare(
    before: Annotated[Path, typer.Argument(help="a run directory")],
    after: Annotated[Path, typer.Argument(help="another")],
) -> None:
    """Shows what changed between two audits."""
    from leakmeter.report.compare import compare as compare_results
    from leakmeter.report.compare import comparison_text
    from leakmeter.results import AuditResult

    typer.echo(comparison_text(compare_results(AuditResult.read(before), AuditResult.read(after))))
