"""Figures in README and docs are those of the JSON files named beside them: a text that drifts fails here."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log10
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from leakmeter.certificates import clopper_pearson, tight_radius

ROOT = Path(__file__).parents[2]
Read = Callable[[dict[str, Any]], tuple[Any, ...]]


def copied(dataset: str, arm: str, queries: int) -> Read:
    """Share of the victim's accuracy, and fidelity: means over the seeds of `procedural`."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        (rows,) = (each["rows"] for each in found["summary"] if (each["dataset"], each["arm"]) == (dataset, arm))
        (row,) = (row for row in rows if row["queries"] == queries)
        return row["accuracy_over_victim"]["mean"], row["fidelity"]["mean"]

    return read


def transfer(row: str) -> Read:
    """The copy's rate and those of its controls, in per cent."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        (line,) = (line for line in found["table"] if line["row"] == row)
        return tuple(100 * line[key] for key in ("copy", "noise", "untrained", "white_box"))

    return read


def learned(arm: str) -> Read:
    """Mean accuracy from 10 queries, in per cent."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        start = f"mnist milli-conv | {arm} | 10 |"
        return (100 * fmean(cell["accuracy"] for key, cell in found["cells"].items() if key.startswith(start)),)

    return read


def pgd(found: dict[str, Any]) -> tuple[Any, ...]:
    """How far below foolbox and ART our PGD ends at least and at most, and where APGD is as strong or stronger."""
    cells = [cell for key, cell in found.items() if key.startswith("pgd")]
    below = sorted(-cell["points above the best of foolbox and ART"] for cell in cells)
    return below[0], below[-1], sum(cell["points above the best APGD"] >= 0 for cell in cells), len(cells)


def digits(found: dict[str, Any]) -> tuple[Any, ...]:
    """Queries a unit at 1,024 units, and how many digits every copy has there."""
    a_unit = found["queries_per_unit"]

    def exact_to(outputs: int) -> int:
        start = f"secant, {outputs} outputs, h=1024"
        errors = [c["certificate"]["relative_error"] for key, c in found["cells"].items() if key.startswith(start)]
        return int(-log10(max(errors)))

    return a_unit["ours, 1 output"]["1024"], a_unit["ours, 10 outputs"]["1024"], exact_to(1), exact_to(10)


def paper_failed(found: dict[str, Any]) -> tuple[Any, ...]:
    """The paper's algorithm: the last size at which it ended, and that it gave up at the next."""
    assert "failure" in found["cells"]["paper, 1 outputs, h=1024, seed 0"]
    return (found["queries_per_unit"]["paper"]["256"],)


def trained(found: dict[str, Any]) -> tuple[Any, ...]:
    """Queries a unit of networks trained on MNIST, seen with probabilities and gradients, at least and at most."""
    rows = [row for row in found["trained"]["rows"] if row["view"] == "probs+gradient" and row["h"] == 128]
    assert {row["fidelity"] for row in rows} == {1.0}
    return min(row["queries"] for row in rows) / 128, max(row["queries"] for row in rows) / 128


PROCEDURAL = "procedural/procedural.json"
FIGURES: list[tuple[str, str, str, Read]] = [
    (
        "README.md",
        "| {:.3f} (Gaussian noise: {:.2f}) |",
        "surrogate-mnist/surrogate-mnist.json",
        lambda found: tuple(found["summary"][pool]["accuracy_over_victim"] for pool in ("mnist", "gaussian")),
    ),
    ("README.md", "{:.3f} (fidelity {:.3f}) from 2,000 queries", PROCEDURAL, copied("mnist", "procedural-probs", 2000)),
    ("README.md", "{:.3f} ({:.3f}) from 500", PROCEDURAL, copied("mnist", "procedural-probs", 500)),
    ("README.md", "labels alone {:.3f} ({:.3f}) from 5,000", PROCEDURAL, copied("mnist", "procedural-labels", 5000)),
    ("README.md", "{:.3f} ({:.3f}) from 5,000 queries", PROCEDURAL, copied("fashion-mnist", "procedural-probs", 5000)),
    ("README.md", "{:.3f} ({:.3f}) from 20,000;", PROCEDURAL, copied("fashion-mnist", "procedural-probs", 20_000)),
    (
        "README.md",
        "alone {:.3f} ({:.3f}) from 20,000",
        PROCEDURAL,
        copied("fashion-mnist", "procedural-labels", 20_000),
    ),
    ("README.md", "{:.3f} ({:.3f}) from 50,000 queries", PROCEDURAL, copied("cifar10", "procedural-probs", 50_000)),
    ("README.md", "DFME {:.3f} ({:.3f})", PROCEDURAL, copied("cifar10", "dfme-50k", 50_000)),
    ("README.md", "something else {:.3f} ({:.3f})", PROCEDURAL, copied("cifar10", "unrelated-data", 8000)),
    (
        "README.md",
        "{:.0f} % (random noise {:.1f} %, an untrained copy {:.1f} %, the victim itself {:.1f} %)",
        "codfe-table1/codfe-table1.json",
        transfer("mnist/probs/procedural/untargeted/pgd"),
    ),
    ("README.md", "{:.1f} % accuracy", "milli-fig2/milli-fig2.json", learned("membership + gradient")),
    ("README.md", "(without gradients: {:.1f} %)", "milli-fig2/milli-fig2.json", learned("membership")),
    (
        "README.md",
        "{:.2f} queries a unit; {:.2f} with ten outputs, to {} digits and {}",
        "exact-queries/exact-queries.json",
        digits,
    ),
    ("README.md", "paper's algorithm: {:.0f} at 256 units", "exact-queries/exact-queries.json", paper_failed),
    ("README.md", "from {:.1f} to {:.1f} queries a unit", "bench/exact.json", trained),
    (
        "README.md",
        "{:.1f} times faster, {:.2f} points less accurate",
        "bench/gradients.json",
        lambda found: (found["times_faster"], -found["accuracy_points"]),
    ),
    (
        "README.md",
        "none flips one (at 1.5 times the radius, {})",
        "stn-soundness/stn-soundness.json",
        lambda found: (found["cells"]["1.5 R/seed0"]["flipped"],),
    ),
    (
        "README.md",
        "{:.0f} times fewer, same certified accuracy",
        "bench/certify.json",
        lambda found: (found["radius 0.5"]["times fewer"],),
    ),
    ("README.md", "{:.1f} to {:.1f} points lower; APGD ties or beats it in {} of {}", "bench/evasion.json", pgd),
    (
        "README.md",
        "{:.2f} of twice the speed",
        "bench/cluster.json",
        lambda found: (found["efficiency"],),
    ),
    (
        "README.md",
        "{:.1f} % of its time (checks and views: {:.1f} % more)",
        "bench/oracle.json",
        lambda found: tuple(100 * found["asked_256_at_a_time"][key] for key in ("books", "door")),
    ),
    (
        "docs/intervals.md",
        "| an attack's mean | {:.3f} | | the share of tries | {:.3f} | | one copy | {:.3f} | "
        "| the mean of the copies made | {:.3f} | | the cost of an attack on average | {:.3f} | "
        "| the cost of the cheapest copy made | {:.3f} | | certified accuracy | {:.3f} |",
        "bench/coverage.json",
        lambda found: tuple(list(found["worst coverage"].values())[:7]),
    ),
    (
        "docs/intervals.md",
        "passes in {:.1%} of trials at most; with the best copy exactly on it, the policy counts as exceeded in {:.1%}",
        "bench/coverage.json",
        lambda found: (found["most often false"]["pass"], found["most often false"]["exceeded"]),
    ),
    (
        "docs/defenses.md",
        "on {} test inputs",
        "defenses-digits/results.json",
        lambda found: (found["victim"]["test_size"],),
    ),
    (
        "docs/datafree.md",
        "`procedural`, labels | **{:.3f}** from 5,000",
        PROCEDURAL,
        lambda found: copied("mnist", "procedural-labels", 5000)(found)[:1],
    ),
    (
        "docs/datafree.md",
        "`procedural` reaches {:.3f} (fidelity {:.3f}) from 50,000",
        PROCEDURAL,
        copied("cifar10", "procedural-probs", 50_000),
    ),
]


@pytest.mark.parametrize(("page", "text", "source", "read"), FIGURES, ids=[each[1] for each in FIGURES])
def test_a_figure_is_what_its_file_says(page: str, text: str, source: str, read: Read) -> None:
    found = read(json.loads((ROOT / "results" / source).read_text()))
    assert text.format(*found) in " ".join((ROOT / page).read_text().split())


def test_every_measured_row_of_the_readme_is_held_to_its_file() -> None:
    table = (ROOT / "README.md").read_text().partition("## What it measures here")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if "`results/" in row or row.endswith("| the same |")]
    held = [text.partition("{")[0] or text.rpartition("}")[2] for page, text, _, _ in FIGURES if page == "README.md"]
    loose = [row for row in rows if "see [" not in row and not any(part.strip() in row for part in held)]
    assert loose == []


def test_the_bound_at_a_hundred_votes_that_agree() -> None:
    lower = float(clopper_pearson(100, 100, 0.001)[0])
    assert f"stops at {float(tight_radius(lower, 1 - lower, 1.0)):.2f}σ" in (ROOT / "docs/certificates.md").read_text()
