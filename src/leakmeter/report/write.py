"""All forms of a result, into one folder."""

from __future__ import annotations

from pathlib import Path

from leakmeter.files import told, write_atomic
from leakmeter.report.html import report_html
from leakmeter.report.junit import junit_xml
from leakmeter.report.markdown import report_markdown
from leakmeter.results import AuditResult


def write_reports(result: AuditResult, folder: Path) -> None:
    """`results.json` first: the rest can always be built from it again."""
    with told(folder):
        write_atomic(folder / "results.json", result.model_dump_json(indent=2).encode())
        write_atomic(folder / "report.html", report_html(result, folder).encode())
        write_atomic(folder / "report.md", report_markdown(result).encode())
        write_atomic(folder / "junit.xml", junit_xml(result).encode())
