"""`report.sarif`: the findings as SARIF 2.1.0, for code scanning and for whatever else collects those.

A finding about a model has no line of code. It points at the model's file where the model is one, else at the plan, so
that it lands beside what has to change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import PurePath
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from leakmeter.oracle.view import contains
from leakmeter.report.sections.transfer import ArmTransfer, arm_transfers
from leakmeter.report.standards import FINDINGS, STANDARDS, Finding
from leakmeter.report.surfaces import best_copy, surely_below, surfaces
from leakmeter.report.words import percent, plain_text, span, surface_words
from leakmeter.results import AuditResult

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Level = Literal["none", "note", "warning", "error"]
_LEVELS: dict[str, Level] = {"pass": "none", "exceeded": "error", "undecided": "warning"}
_FILES = (".onnx", ".pt2", ".pt", ".py", ".safetensors", ".json", ".txt", ".ubj", ".skops", ".cbm")


class _Found(NamedTuple):
    finding: str
    level: Level
    about: str
    """What tells it from the others of its kind, from audit to audit."""
    message: str


def sarif_text(result: AuditResult) -> str:
    """Exceeded is an error, undecided and a failed check a warning; what no policy speaks of is a note."""
    return json.dumps(sarif(result), indent=2, ensure_ascii=False) + "\n"


def sarif(result: AuditResult) -> dict[str, Any]:
    """The same as a dictionary."""
    ids = list(FINDINGS)
    driver = {
        "name": "leakmeter",
        "semanticVersion": str(result.environment.get("leakmeter", "0.0.0")),
        "informationUri": "https://pypi.org/project/leakmeter/",
        "rules": [_rule(finding) for finding in FINDINGS.values()],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "taxonomies": _taxonomies(),
                "automationDetails": {"id": f"leakmeter/{plain_text(str(result.plan.get('name') or 'audit'))}/"},
                "results": [_result(result, found, ids.index(found.finding)) for found in _findings(result)],
                "properties": {
                    "outcome": result.verdict.outcome,
                    "headline": plain_text(result.verdict.headline, 2000),
                },
            }
        ],
    }


def _findings(result: AuditResult) -> Iterator[_Found]:
    for ruling in result.verdict.rulings:
        kind = "copy-fidelity" if ruling.rule.startswith("fidelity") else "copy-cost"
        yield _Found(kind, _LEVELS[ruling.outcome], ruling.rule, f"{ruling.rule}: {ruling.outcome}: {ruling.message}")
    if not result.verdict.rulings:
        yield _Found("copy-fidelity", "note", "headline", f"{result.verdict.headline} No policy was set.")
    for check in result.verdict.checks:
        if not check.ok:
            yield _Found("audit-unsound", "warning", check.name, f"{check.name}: {check.message}. {check.means}")
    yield from _informative(result)
    transfers = [
        each for each in arm_transfers(result) if (each.rate("copy_rate") or 0) > (each.rate("noise_rate") or 0)
    ]
    strongest = max(transfers, key=lambda each: each.rate("copy_rate") or 0.0, default=None)
    if strongest is not None:
        yield _Found("transfer", "note", "strongest", _transfer(strongest))


def _informative(result: AuditResult) -> Iterator[_Found]:
    """Each undefended view that clearly leaks more than one that it contains."""
    bare = [surface for surface in surfaces(result) if surface.defense == "none"]
    for more, less in permutations(bare, 2):
        if contains(more.view, less.view) and surely_below(less, more) and more.best and less.best:
            rates = (percent(best_copy(less.best)), percent(best_copy(more.best)))
            gain = f"The best copy agrees on {rates[0]} showing {less.view}, on {rates[1]} showing {more.view}."
            yield _Found("informative-answers", "note", f"{more.view}>{less.view}", gain)


def _transfer(found: ArmTransfer) -> str:
    ends = span(found.interval.low, found.interval.high)
    return (
        f"{percent(found.rate('copy_rate'))} ({ends}) of correct inputs can be flipped with a copy made by "
        f"{found.label}, seeing {surface_words(found.view, found.defense)} ({found.examples}); random noise flips "
        f"{percent(found.rate('noise_rate'))}."
    )


def _result(result: AuditResult, found: _Found, index: int) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _location(result)}, "region": {"startLine": 1}}
    same = "\n".join((found.finding, found.about, result.victim.name))
    return {
        "ruleId": found.finding,
        "ruleIndex": index,
        "kind": "pass" if found.level == "none" else "fail",
        "level": found.level,
        "message": {"text": plain_text(found.message, 2000)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"finding/v1": hashlib.sha256(same.encode()).hexdigest()},
    }


def _location(result: AuditResult) -> str:
    """The model's file, relative as it was given, else the plan."""
    source = str((result.plan.get("victim") or {}).get("source", ""))
    file, _, attribute = source.rpartition(":")
    path = file if attribute and file.endswith(".py") else source
    if "://" in path or PurePath(path).suffix not in _FILES:
        return "plan.toml"
    return PurePath(path).as_uri() if PurePath(path).is_absolute() else quote(PurePath(path).as_posix())


def _rule(finding: Finding) -> dict[str, Any]:
    targets = [STANDARDS[entry] for entry in finding.standards]
    return {
        "id": finding.id,
        "name": finding.name,
        "shortDescription": {"text": finding.says},
        "fullDescription": {"text": finding.says},
        "help": {"text": finding.advice},
        "defaultConfiguration": {"level": "warning"},
        "relationships": [
            {"target": {"id": each.id, "toolComponent": {"name": each.catalogue}}, "kinds": ["relevant"]}
            for each in targets
        ],
        "properties": {"tags": ["security", *(f"{each.catalogue} {each.id}" for each in targets)]},
    }


def _taxonomies() -> list[dict[str, Any]]:
    catalogues = dict.fromkeys(each.catalogue for each in STANDARDS.values())
    return [
        {
            "name": name,
            "taxa": [
                {"id": each.id, "name": each.name, "helpUri": each.address}
                for each in STANDARDS.values()
                if each.catalogue == name
            ],
        }
        for name in catalogues
    ]
