"""`junit.xml`: a test case for every line of the policy and every soundness check, for CI systems that show those."""

from __future__ import annotations

from xml.etree import ElementTree

from leakmeter.report.words import plain_text
from leakmeter.results import AuditResult, Verdict

_Case = tuple[str, str, str]  # name, outcome, message
_TAGS = {"exceeded": "failure", "undecided": "error"}


def junit_xml(result: AuditResult) -> str:
    """The verdict of an audit."""
    return verdict_xml(result.verdict, result.created)


def verdict_xml(verdict: Verdict, created: str) -> str:
    """Exceeded is a failure, undecided an error. A failed check is an error: nothing is decided then."""
    policy: list[_Case] = [(ruling.rule, ruling.outcome, ruling.message) for ruling in verdict.rulings]
    checks: list[_Case] = [(check.name, "pass" if check.ok else "undecided", check.message) for check in verdict.checks]
    root = ElementTree.Element("testsuites", {"name": "leakmeter", **_counts([*policy, *checks])})
    for name, cases in (("policy", policy), ("checks", checks)):
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": f"leakmeter.{name}", "timestamp": plain_text(created), **_counts(cases)}
        )
        for case, outcome, message in cases:
            attributes = {"classname": f"leakmeter.{name}", "name": plain_text(case)}
            element = ElementTree.SubElement(suite, "testcase", attributes)
            if outcome != "pass":
                ElementTree.SubElement(element, _TAGS[outcome], {"message": plain_text(message, 2000), "type": outcome})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(cases: list[_Case]) -> dict[str, str]:
    outcomes = [outcome for _, outcome, _ in cases]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("exceeded")),
        "errors": str(outcomes.count("undecided")),
    }
