"""Figures in README and docs are those of the JSON files named beside them: a text that drifts fails here.

Every figure of a page under `HELD` has its place in a text of `FIGURES`, which says where it comes from, or stands
among those that were not measured, in a comment of its section: `<!-- given: 0.2, 1,000 -->`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.docs import test_defense_matrix, test_first_try, test_tables, test_watch
from tests.docs.pages import PAGES
from tests.docs.pages.datafree import PROCEDURAL
from tests.docs.pages.explanations import STUDY
from tests.docs.readers import (
    Figure,
    Read,
    copied,
    defended,
    digits,
    hostile,
    learned,
    paper_failed,
    pgd,
    trained,
    transfer,
)
from tests.docs.sources import unvouched

from leakmeter.certificates import clopper_pearson, pixeldp_analytic_radius, pixeldp_radius, renyi_radius, tight_radius
from leakmeter.evaluation.bounded import mean_bounds
from leakmeter.studies.ours._shown import sentence

ROOT = Path(__file__).parents[2]
LOOSE = ("docs/papers.md", "docs/exact.md")
"""The first is written from results/ and held against it (test_papers.py); of the second part of the text is held."""
HELD = ("README.md", *(each for page in sorted(ROOT.glob("docs/*.md")) if (each := f"docs/{page.name}") not in LOOSE))
LINES = {
    "docs/defenses.md": test_defense_matrix.lines,
    "docs/first-try.md": test_first_try.lines,
    "docs/tables.md": test_tables.lines,
    "docs/watch.md": test_watch.lines,
}
"""What pages say that have a test of their own."""
FIGURES: list[Figure] = [
    ("README.md", "{}", STUDY, lambda found: (sentence(found),)),
    (
        "README.md",
        "on MNIST, {:,} queries of drawn pictures: the copy of who reads them best | {:.1%} without any; {:.1%} behind "
        "`misinformation:0.9`, which takes {:.1%} of accuracy; {:.1%} or more behind every other",
        "defense-matrix/defense-matrix.json",
        defended,
    ),
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
    (
        "README.md",
        "{:.1f} % accuracy",
        "milli-fig2/milli-fig2.json",
        learned("mnist milli-conv", "membership + gradient", 10),
    ),
    (
        "README.md",
        "(without gradients: {:.1f} %)",
        "milli-fig2/milli-fig2.json",
        learned("mnist milli-conv", "membership", 10),
    ),
    (
        "README.md",
        "{:.2f} queries a unit; {:.2f} with ten outputs, to {} digits and {}",
        "exact-queries/exact-queries.json",
        digits,
    ),
    (
        "README.md",
        "paper's algorithm: {:.0f} at 256 units, and at 1,024 it gives up after {:.0f})",
        "exact-queries/exact-queries.json",
        paper_failed,
    ),
    ("README.md", "test images from {:.1f} queries a unit", "bench/exact.json", trained),
    (
        "README.md",
        "{:.1f} times faster, {:.2f} points less accurate",
        "bench/gradients.json",
        lambda found: (found["times_faster"], -found["accuracy_points"]),
    ),
    (
        "README.md",
        "attacks by PGD on {} certified inputs, within 0.99 of the certified radius | none flips one (at 1.5 times the "
        "radius, {})",
        "stn-soundness/stn-soundness.json",
        lambda found: tuple(
            found["cells"][key][of] for key, of in (("0.99 R/seed0", "attacked"), ("1.5 R/seed0", "flipped"))
        ),
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
        "docs/intervals.md",
        "{} of {}, a share of {:.3f} (`{}`",
        "mutants.json",
        lambda found: (
            found["mutants"] - len(found["survivors"]),
            found["mutants"],
            found["score"],
            found["command"],
        ),
    ),
    (
        "docs/intervals.md",
        "{} of {} were noticed, a share of {:.3f} (`{}`",
        "mutants-fresh.json",
        lambda found: (
            found["mutants"] - len(found["survivors"]),
            found["mutants"],
            found["score"],
            found["command"],
        ),
    ),
    (
        "docs/security.md",
        "{:,} changed files of each of the {} formats that are read, without a traceback, a crash, or one that took "
        "over 1 GB or 5 s; and {} runs of the storm over {} behaviours of a server with {} kills, {:,} rows seen and "
        "{:,} counted: none uncounted, none over budget",
        "hostile.json",
        hostile,
    ),
    (
        "docs/defenses.md",
        "on {} test inputs",
        "defenses-digits/results.json",
        lambda found: (found["victim"]["test_size"],),
    ),
    *PAGES,
]


def filled(text: str, source: str, read: Read) -> str:
    """The text with the figures of the file."""
    return text.format(*read(json.loads((ROOT / "results" / source).read_text())))


@pytest.mark.parametrize(("page", "text", "source", "read"), FIGURES, ids=[f"{each[0]} {each[1]}" for each in FIGURES])
def test_a_figure_is_what_its_file_says(page: str, text: str, source: str, read: Read) -> None:
    assert filled(text, source, read) in " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize("page", HELD)
def test_no_figure_is_without_a_source(page: str) -> None:
    texts = [filled(text, source, read) for place, text, source, read in FIGURES if place == page]
    found = unvouched((ROOT / page).read_text() + "\nPlanted: 0.98765\n", texts + computed(page))
    assert [each for each in found if not each.endswith("Planted: 0.98765")] == []
    assert len(found) == 1


def test_a_figure_nobody_vouches_for_is_found() -> None:
    first = "# A\n\n12 of 0.5 and 97 % are `0.25`, [b](c/0.1) in 2019; 0.75 too\n\n<!-- given: 0.5 -->\n"
    page = first + "## B\n\n1,000 at 0.5\n"
    assert [each.split()[-1] for each in unvouched(page, ["97 % are"])] == ["0.75", "1,000", "0.5"]


def computed(page: str) -> list[str]:
    """Texts of a page whose figures follow from a formula."""
    if page == "docs/intervals.md":
        three, ten = ([100 * bound for bound in mean_bounds([0.95] * seeds, 0.025)] for seeds in (3, 10))
        first = f"three copies of 95 % leave a mean of {three[0]:.0f} % to {three[1]:.0f} % possible"
        return [f"{first}, ten of them {ten[0]:.0f} % to {ten[1]:.0f} %"]
    if page in LINES:
        return list(LINES[page]())
    if page != "docs/certificates.md":
        return []
    bounds = (tight_radius, renyi_radius, pixeldp_radius, pixeldp_analytic_radius)
    rows = [
        f"| {p1}, {round(1 - p1, 2)} | " + " | ".join(f"{bound(p1, round(1 - p1, 2), 1.0):.3f}" for bound in bounds)
        for p1 in (0.6, 0.9, 0.99)
    ]
    caps = {n: _cap(n) for n in (100, 1000, 10_000, 100_000)}
    return [
        *rows,
        f"at most {caps[1000]:.2f}σ with n = 1,000, {caps[10_000]:.2f}σ with 10,000, {caps[100_000]:.2f}σ with 100,000",
        f"the tight bound stops at {caps[100]:.2f}σ",
    ]


def _cap(n: int) -> float:
    """The tight radius in units of sigma if all n votes agree, at alpha = 0.001."""
    lower = float(clopper_pearson(n, n, 0.001)[0])
    return tight_radius(lower, 1 - lower, 1.0)


@pytest.mark.parametrize(
    ("page", "text"), [(page, text) for page in HELD if page not in LINES for text in computed(page)]
)
def test_a_figure_is_what_its_formula_says(page: str, text: str) -> None:
    assert text in " ".join((ROOT / page).read_text().split())
