"""All forms of a result, into one folder."""

from __future__ import annotations

from pathlib import Path

from leakmeter.files import write_atomic, writing
from leakmeter.report.html import document_html
from leakmeter.report.junit import junit_xml
from leakmeter.report.markdown import document_markdown
from leakmeter.report.sarif import sarif_text
from leakmeter.report.sections import report_document
from leakmeter.results import AuditResult
from leakmeter.shown import shown_in


def write_reports(result: AuditResult, folder: Path) -> None:
    """`results.json` first: the rest can always be built from it again."""
    result = AuditResult.model_validate(shown_in(result.model_dump(exclude={"folder"})))
    with writing(folder):
        write_atomic(folder / "results.json", result.model_dump_json(indent=2).encode())
        document = report_document(result, folder)
        write_atomic(folder / "report.html", document_html(document).encode())
        write_atomic(folder / "report.md", document_markdown(document).encode())
        write_atomic(folder / "junit.xml", junit_xml(result).encode())
        write_atomic(folder / "report.sarif", sarif_text(result).encode())
