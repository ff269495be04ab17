"""`report.html`: one self-contained file."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from leakmeter.results import AuditResult


def report_html(result: AuditResult, folder: Path) -> str:  # noqa: ARG001
    """The whole report."""
    return _environment().get_template("report.html").render(result=result)


def summary_html(result: AuditResult) -> str:
    """The verdict alone, for notebooks."""
    return _environment().get_template("summary.html").render(result=result)


def _environment() -> Environment:
    return Environment(loader=PackageLoader("leakmeter.report"), autoescape=select_autoescape())
