"""What holds for every section and every kind of block."""

import re
from pathlib import Path
from typing import get_args

from leakmeter.report import blocks as b
from leakmeter.report.html import document_html
from leakmeter.report.markdown import document_markdown
from leakmeter.report.sections import ORDER, all_sections, report_document

ROOT = Path(__file__).parents[2]


def test_every_file_of_the_folder_is_a_section_of_the_report():
    files = (ROOT / "src/leakmeter/report/sections").glob("*.py")
    assert {file.stem for file in files} == {*ORDER, "__init__"}
    assert len(all_sections()) == len(ORDER)


def test_every_section_is_called_like_its_file(full_audit, hang_pictures, tmp_path):
    hang_pictures(full_audit, tmp_path, size=(8, 8))
    hang_pictures(full_audit, tmp_path, size=(8, 8), name="adversarial.png")
    document = report_document(full_audit, tmp_path)
    assert [section.id for section in document.sections] == [name.replace("_", "-") for name in ORDER]


def test_every_kind_of_block_is_written_in_every_format():
    def draw(axes):
        axes.plot((0, 1), (0, 1))

    table = b.Table("TABLE", ("A", b.Numeric("B")), {"GROUP": [b.Row("ROW", b.Entry("1", "BELOW", "bad", 0.5))]})
    blocks: list[b.Block] = [
        b.Headline("EYEBROW", "BADGE", "good", "HEADLINE"),
        b.Paragraph("PARAGRAPH ", b.Mono("MONO"), b.Strong("STRONG"), b.Link("LINK", "s")),
        b.Callout("unsure", "CALLOUT"),
        b.Steps([("STEP",)]),
        b.Heading("HEADING"),
        b.Figures([("FIGURE", "what", "source")]),
        b.Facts([("FACT", "value")]),
        table,
        b.Chart("CHART", "DESCRIPTION", draw, table),
        b.Picture("PICTURE", "alt", b"\x89PNG", "cells/a/b.png"),
        b.Preformatted("PREFORMATTED"),
        b.Folded("FOLDED", [b.Paragraph("INSIDE")]),
    ]
    assert {type(block) for block in blocks} == set(get_args(b.Block))
    document = b.Document("TITLE", [b.Section("s", "S", "LEAD", blocks)], "FOOTER")
    words = "EYEBROW BADGE HEADLINE LEAD PARAGRAPH MONO STRONG CALLOUT STEP HEADING FIGURE FACT GROUP ROW BELOW CHART "
    words += "DESCRIPTION PICTURE PREFORMATTED FOLDED INSIDE FOOTER"
    for text in (document_html(document), document_markdown(document)):
        assert [word for word in words.split() if word not in text] == []
    assert "LINK" not in document_markdown(document)  # how sections are addressed is each site's own
    assert '<a href="#s">LINK</a>' in document_html(document)


def test_a_section_as_the_docs_write_it(make_audit, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/adding-a-report-section.md").read_text(), re.DOTALL)
    scope: dict = {}
    exec(code, scope)
    assert scope["section"](make_audit(seeds=1), tmp_path) is None
    document = report_document(make_audit(), tmp_path, [*all_sections(), scope["section"]])
    assert document.sections[-1].title == "How far seeds lie apart"
    assert "<h2>How far seeds lie apart</h2>" in document_html(document)
    assert "*Width of the interval*: procedural: " in document_markdown(document)
