"""`leakmeter ls`, `report` and `compare`: runs already made, without the victim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from leakmeter.commands import options
from leakmeter.errors import UsageError


def list_runs(out: options.Out = Path("runs")) -> None:
    """Lists the runs in a folder, oldest first."""
    if not out.is_dir():
        raise UsageError(f"there is no folder {out}; runs are written there by audit, extract and demo")
    found = sorted(path.parent for path in out.glob("*/plan.toml"))
    for path in found:
        options.say(f"{path.name:44} {_state(path)}")
    if not found:
        options.say(f"no runs in {out}")


def _state(path: Path) -> str:
    results = path / "results.json"
    if not results.exists():
        done = len(list(path.glob("cells/*/cell.json")))
        return f"unfinished ({done} cells done; go on with --resume {path})"
    try:
        verdict = json.loads(results.read_text())["verdict"]
        return f"{verdict['outcome']:10} {verdict['headline']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "results.json cannot be read"


def report(run: Annotated[Path, typer.Argument(help="a run directory, or its results.json")]) -> None:
    """Rebuilds the reports of a run, without the victim."""
    from leakmeter.report.write import write_reports
    from leakmeter.results import AuditResult

    folder = run if run.is_dir() else run.parent
    write_reports(AuditResult.read(run), folder)
    options.say(folder / "report.html")


def compare(
    before: Annotated[Path, typer.Argument(help="a run directory")],
    after: Annotated[Path, typer.Argument(help="another")],
    html: Annotated[Path | None, typer.Option("--html", help="also write it as a page, to this file")] = None,
) -> None:
    """Shows what changed between two audits."""
    from leakmeter.files import write_atomic, writing
    from leakmeter.report.compare import compare as compare_results
    from leakmeter.report.compare import comparison_document, comparison_text
    from leakmeter.report.html import document_html
    from leakmeter.results import AuditResult

    found = compare_results(AuditResult.read(before), AuditResult.read(after))
    options.say(comparison_text(found))
    if html is not None:
        with writing(html):
            write_atomic(html, document_html(comparison_document(found)).encode())
        options.say(html)
