"""docs/papers.md is what results/ says, and misses nothing of the papers."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def papers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("papers", ROOT / "tools" / "papers.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["papers"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_not_drifted(papers: ModuleType) -> None:
    assert papers.PAGE.read_text() == papers.page(), "run python tools/papers.py"


def test_every_place_it_names_is_there(papers: ModuleType) -> None:
    papers.page()
    from papers_items import PAPERS

    items = [item for group in PAPERS.values() for item in group]
    missing = [
        place for item in items for place in (item.code + " " + item.test).split() if not (ROOT / place).exists()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("paper", "names"),
    [
        ("DFME", ["Table 4", "Figure 7", "Lemma 1", "Lemma 2", "Lemma 3", "Equations 8 and 9", "Hypothesis 1"]),
        (
            "CoDFe",
            [
                "Algorithm 1",
                "Theorem 1",
                "Lemma 1",
                *(f"Figure {k}" for k in range(1, 5)),
                "Table 1",
                "Table 2",
                "Table 3",
            ],
        ),
        (
            "Milli",
            [
                "Algorithm 1,",
                "1a",
                "1b",
                *(f"Theorem {k}" for k in range(1, 5)),
                "Figure 1",
                "Figure 2",
                "Figure 5",
                "Figures 6 and 7",
            ],
        ),
        ("Milli", [*(f"Lemma {k}" for k in (1, 2, 3, 4, 7, 8, 9)), "Lemmas 5 and 6", "Figure 3", "Figure 4"]),
        ("STN", ["Algorithm 1", "Lemma 1", "Theorem 2", "Lemma 3", "Table 1", *(f"Figure {k}" for k in range(1, 8))]),
    ],
)
def test_nothing_of_a_paper_is_left_out(paper: str, names: list[str], papers: ModuleType) -> None:
    (section,) = (part for part in papers.page().split("\n## ") if part.startswith(paper))
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
    assert [name for name in names if not any(name in row for row in rows)] == []


def test_a_number_that_is_not_there_is_said_not_to_be(papers: ModuleType) -> None:
    item = papers.Item(
        "x", "", "", ours=papers.told("stn-fig4", "no such row"), missing=papers.run("stn-fig4", "a minute")
    )
    assert papers._row(item).split(" | ")[4] == "not run: `leakmeter study stn-fig4 --seed 0 --seeds 3`, about a minute"


def test_rows_of_one_name_are_all_told_and_a_later_record_adds_what_is_new(papers: ModuleType) -> None:
    alike = papers.rows("milli-fig2")
    assert len({row.what for row in alike}) < len(alike) == len(papers.told("milli-fig2")())
    few, many = ("codfe-table1-seeds/codfe-table1", "codfe-table1/codfe-table1")
    told = papers.told("codfe-table1", records=(few, many))()
    assert told[: len(papers.rows("codfe-table1", few))] == papers.rows("codfe-table1", few)
    assert {row.what for row in told} > {row.what for row in papers.rows("codfe-table1", few)}


def test_no_cell_of_a_row_is_empty(papers: ModuleType) -> None:
    rows = [line for line in papers.page().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    assert {len(row) for row in cells} == {len(papers.COLUMNS)}
    assert all(all(row) for row in cells)
    assert [row[0] for row in cells if row[4] in ("–", "not run")] == []


def test_what_was_not_run_has_its_command(papers: ModuleType) -> None:
    papers.page()
    from papers_items import PAPERS

    items = [item for group in PAPERS.values() for item in group]
    bare = [item.name for item in items if callable(item.ours) and not item.ours() and not item.missing]
    assert bare == []
