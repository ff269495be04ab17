"""Markdown, JUnit, the terminal, and the folder they are written to."""

import json
import re
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from leakmeter.errors import UsageError
from leakmeter.report import write
from leakmeter.report.blocks import Document, Entry, Numeric, Preformatted, Row, Section, Table
from leakmeter.report.html import document_html
from leakmeter.report.junit import junit_xml
from leakmeter.report.markdown import document_markdown, escaped
from leakmeter.report.schema import results_schema, schema_text
from leakmeter.report.sections import report_document
from leakmeter.report.text import verdict_text
from leakmeter.report.write import write_reports
from leakmeter.results import AuditResult

ROOT = Path(__file__).parents[2]


def test_markdown_and_html_have_the_same_sections(full_audit, hang_pictures, tmp_path):
    hang_pictures(full_audit, tmp_path, size=(8, 8))
    document = report_document(full_audit, tmp_path)
    titles = re.findall(r"^## (.*)$", document_markdown(document), re.MULTILINE)
    assert titles == [section.title for section in document.sections[1:]]
    assert titles == re.findall("<h2>(.*)</h2>", document_html(document))
    assert "What the attacker asked" in titles


def test_markdown_tells_charts_in_words_and_links_pictures(full_audit, hang_pictures, tmp_path):
    hang_pictures(full_audit, tmp_path, size=(8, 8))
    text = document_markdown(report_document(full_audit, tmp_path))
    assert "*Fidelity by queries, showing probs*: procedural: " in text
    (path,) = set(re.findall(rf"\((cells/{full_audit.cells[0].id}/queries.png)\)", text))
    assert (tmp_path / path).is_file()


def markdown_of(block) -> str:
    return document_markdown(Document("", [Section("a", "A", "", [block])]))


def test_markdown_tables_keep_their_shape_whatever_they_hold():
    hostile = "a|b\nc <b>x</b> `d` [e](f) *g* \\| ~h~"
    rows = {hostile: [Row(hostile, Entry("1", below=hostile), control=True), Row("plain", "2")]}
    lines = [line for line in markdown_of(Table("c", ("One", Numeric("Two")), rows)).splitlines() if line[:1] == "|"]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [3, 3, 3, 3, 3]
    assert lines[1] == "| --- | ---: |"
    assert "<b>" not in "".join(lines)
    assert escaped("<script>") == "&lt;script&gt;"
    assert "|" not in markdown_of(Table("c", ("One", "Two"), []))


def test_no_text_ends_its_own_fence():
    text = "a\n````\n# not a title\n```"
    assert f"`````\n{text}\n`````\n" in markdown_of(Preformatted(text))


def outcomes(xml: str) -> dict[str, str]:
    cases = ElementTree.fromstring(xml.encode()).iter("testcase")
    return {case.attrib["name"]: case[0].tag if len(case) else "pass" for case in cases}


def test_junit_has_a_case_for_every_rule_and_check(full_audit):
    xml = junit_xml(full_audit)
    assert outcomes(xml) == {
        "fidelity at 8,000 queries": "error",
        "queries to 90% fidelity": "pass",
        "all cells finished": "pass",
        "enough test points": "pass",
        "budget spent": "pass",
    } | {check.name: "pass" for check in full_audit.verdict.checks}
    root = ElementTree.fromstring(xml.encode())
    for element in [root, *root]:
        cases = list(element.iter("testcase"))
        assert element.attrib["tests"] == str(len(cases))
        assert element.attrib["errors"] == str(sum(len(case.findall("error")) for case in cases))
        assert element.attrib["failures"] == str(sum(len(case.findall("failure")) for case in cases))


def test_junit_tells_exceeded_from_undecided(make_audit):
    result = make_audit(policy={"max_fidelity": {"queries": 8000, "value": 0.5}})
    assert result.exit_code == 3
    assert outcomes(junit_xml(result))["fidelity at 8,000 queries"] == "failure"
    broken = [check.model_copy(update={"ok": False, "message": "\x00 <&"}) for check in result.verdict.checks]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"checks": broken})})
    assert {outcome for name, outcome in outcomes(junit_xml(result)).items() if "queries" not in name} == {"error"}


def test_the_terminal_does_not_call_a_measurement_a_pass(make_audit):
    assert verdict_text(make_audit()).startswith("MEASURED, NO POLICY SET: An outsider")
    lax = make_audit(policy={"max_fidelity": {"queries": 8000, "value": 0.99}})
    assert verdict_text(lax).startswith("POLICY MET: ")


def test_a_run_folder_gets_every_format_and_reads_back(make_audit, tmp_path):
    result = make_audit()
    write_reports(result, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "results.json",
        "report.html",
        "report.md",
        "junit.xml",
        "report.sarif",
    }
    assert AuditResult.read(tmp_path) == result


def test_lists_that_do_not_fit_each_other_are_a_sentence(full_audit, tmp_path):
    kept = full_audit.model_dump(mode="json")
    short, torn = json.loads(json.dumps(kept)), json.loads(json.dumps(kept))
    arm = short["verdict"]["arms"][0]
    arm["copies"] = [[0.5] for _ in arm["curve"]][:-1]
    for cell, length in zip(torn["cells"], (2, 3), strict=False):
        cell["class_scores"] = [{"n": 1, "same": 1}] * length
    for content, name in ((short, "copies"), (torn, "class_scores")):
        (tmp_path / "results.json").write_text(json.dumps(content))
        with pytest.raises(UsageError, match=name):
            AuditResult.read(tmp_path)


def test_results_survive_a_report_that_fails(make_audit, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "document_html", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_reports(make_audit(), tmp_path)
    assert AuditResult.read(tmp_path) == make_audit()


def test_the_published_schema_is_current():
    published = ROOT / "docs" / "results.schema.json"
    assert published.read_text() == schema_text(), "run: python -m leakmeter.report.schema > docs/results.schema.json"


def test_the_schema_names_every_key_of_a_result(full_audit):
    """Walks a result along the schema: each key must be declared, each required key present."""
    schema = results_schema()

    def walk(value, rule) -> None:
        rule = schema["$defs"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
        if "anyOf" in rule:
            fitting = [each for each in rule["anyOf"] if (each.get("type") == "null") == (value is None)]
            walk(value, fitting[0])
        elif "properties" in rule:
            assert rule["additionalProperties"] is False
            assert set(rule.get("required", [])) <= set(value) <= set(rule["properties"])
            for key, item in value.items():
                walk(item, rule["properties"][key])
        elif rule.get("type") == "array" and "items" in rule:
            for item in value:
                walk(item, rule["items"])

    walk(json.loads(full_audit.model_dump_json()), schema)


def test_200_cells_fit_in_2_megabytes_and_10_seconds(make_audit, hang_pictures, tmp_path):
    views = ("probs", "labels", "top:3", "logits")
    defenses = ("none", *(f"rounding:{k}" for k in range(4)))
    result = make_audit(attacks=5, views=views, defenses=defenses, seeds=2)
    assert len(result.cells) == 200
    some = result.model_copy(update={"cells": result.cells[:60]})  # more arms than a gallery shows
    hang_pictures(some, tmp_path)
    hang_pictures(some, tmp_path, name="adversarial.png")
    start = time.process_time()
    write_reports(result, tmp_path)
    assert time.process_time() - start < 10
    assert (tmp_path / "report.html").stat().st_size < 2_300_000
