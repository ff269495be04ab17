"""Writes docs/papers.md: every figure, table, algorithm, theorem and lemma of the four papers beside what is here.

    python tools/papers.py            writes the page
    python tools/papers.py --check    fails where the page is not what results/ says

A number of ours comes from results/ and from nowhere else; where there is none the page says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "papers.md"
NOT = "not measured"


@dataclass(frozen=True)
class Item:
    """One thing of a paper."""

    name: str
    code: str
    test: str
    paper: str = "–"
    ours: Callable[[], str] | str = "–"
    why: str = "–"


@cache
def found(study: str) -> dict[str, Any]:
    """The record of a study; empty: there is none."""
    path = ROOT / "results" / study / f"{study}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def seeds(study: str) -> str:
    """How many seeds stand behind a record."""
    words = found(study).get("command", "").split()
    number = words[words.index("--seeds") + 1] if "--seeds" in words else "1"
    return f"{number} seed{'' if number == '1' else 's'}"


def transfers(study: str, *rows: str) -> Callable[[], str]:
    """Success rates of some rows, beside noise, untrained and white box."""

    def told() -> str:
        table = {row["row"]: row for row in found(study)["table"]}
        parts = []
        for name in rows:
            row = table[name]
            beside = "/".join(f"{100 * row[key]:.1f}" for key in ("noise", "untrained", "white_box"))
            parts.append(f"{name}: {100 * row['copy']:.1f} % ({beside})")
        return f"{'; '.join(parts)}; {seeds(study)}; in brackets noise/untrained/white box"

    return told


def accuracies(study: str, *arms: tuple[str, str, str]) -> Callable[[], str]:
    """Final accuracies with their intervals."""

    def told() -> str:
        parts = []
        for dataset, view, arm in arms:
            (row,) = (
                row
                for row in found(study)["summary"]
                if (row["dataset"], row["view"], row["arm"]) == (dataset, view, arm)
            )
            ends, mean = row["accuracy"]["interval"], row["accuracy"]["mean"]
            parts.append(f"{arm} {dataset} {view} {mean:.1%} ({ends['low']:.1%} to {ends['high']:.1%})")
        return f"{'; '.join(parts)}; {row['queries']:,} queries, {seeds(study)}"

    return told


def queries(study: str, *arms: tuple[str, str, str]) -> Callable[[], str]:
    """Queries to the highest accuracy."""

    def told() -> str:
        table = {(row["dataset"], row["view"], row["arm"]): row for row in found(study)["summary"]}
        parts = [f"{a} {d} {v} {table[d, v, a]['queries']['mean']:,.0f}" for d, v, a in arms]
        return f"{'; '.join(parts)} ({found(study)['rule']}; {seeds(study)})"

    return told


def pools(victim: str) -> Callable[[], str]:
    """Table 4's row: the share of the victim's accuracy from each pool."""

    def told() -> str:
        rows = [row for row in found("dfme-table4")["summary"] if row["victim"] == victim]
        return ", ".join(f"{row['pool']} {row['highest']:.2f}×" for row in rows) + f" ({seeds('dfme-table4')})"

    return told


def claims(study: str) -> Callable[[], str]:
    """What a study of Milli et al. measured beside each claim."""

    def told() -> str:
        rows = found(study)["table"]
        return "; ".join(f"{row['panel']}: {row['measured']}" for row in rows)

    return told


def claimed(study: str) -> str:
    """The claims themselves."""
    return "; ".join(f"{row['panel']}: {row['paper']}" for row in found(study).get("table", []))


def certified(study: str, key: str, radius: float, bound: str = "tight") -> Callable[[], str]:
    """Certified accuracy at a radius, with its interval."""

    def told() -> str:
        cell = found(study)["cells"][key]
        (point,) = (each for each in cell["bounds"][bound]["certified"] if each["radius"] == radius)
        ends = point["interval"]
        natural = f", natural {cell['natural_smoothed']:.1%}" if "natural_smoothed" in cell else ""
        share = f"{point['accuracy']:.1%} ({ends['low']:.1%} to {ends['high']:.1%})"
        return f"{share} at {radius}{natural}, {cell['images']} images"

    return told


def curve(study: str, *keys: str) -> Callable[[], str]:
    """Accuracy under attack, from the smallest size to the largest."""

    def told() -> str:
        parts = []
        for key in keys:
            points = found(study)["cells"][f"{key}/seed0"]
            ends = [points[0], points[len(points) // 2], points[-1]]
            parts.append(f"{key}: " + ", ".join(f"{100 * p['accuracy']:.1f} % at {p['eps']:g}" for p in ends))
        return "; ".join(parts) + f" ({seeds(study)})"

    return told


def means_of_logits() -> str:
    """|mean of the logits| over their size, for each victim."""
    cells = {key.rpartition("/")[0]: cell for key, cell in found("dfme-logits")["cells"].items()}
    cells |= found("dfme-resnet20").get("cells", {})
    return "; ".join(f"{key} {cell['abs_mean_over_size']:.2g}" for key, cell in cells.items())


def gradients_fade() -> str:
    """The norms of the gradients of both losses, at the start and the end."""
    first, *_, last = next(iter(found("dfme-gradients")["cells"].values()))
    return (
        f"KL over ℓ1 gradient {first['gradient_kl'] / first['gradient_l1']:.3f} before, "
        f"{last['gradient_kl'] / last['gradient_l1']:.3f} after {last['steps']:,} steps"
    )


def queries_a_unit() -> str:
    """Gradient queries for each hidden unit, by the paper's way and ours."""
    told = found("exact-queries")["queries_per_unit"]
    return "; ".join(f"{way}: {100 * rates['1024'] / 100:.1f}" for way, rates in told.items()) + " at h = 1,024"


def flipped() -> str:
    """Attacks within certified radii."""
    cell = found("stn-soundness")["cells"]["0.99 R/seed0"]
    return f"{cell['flipped']} of {cell['attacked']} certified inputs flipped by attacks at 0.99 of their radius"


def saliency() -> str:
    """How the maps leave the raw gradient as noise grows."""
    told = found("smoothgrad-maps")["cosine_to_the_raw_gradient"]
    return "cosine to the raw gradient: " + ", ".join(f"{name} {value:.2f}" for name, value in told.items())


def radii() -> str:
    """Mean certified radii of the networks that were certified."""
    cells = found("stn-table1")["cells"]
    return "; ".join(
        f"{key.rpartition('/')[0]} {cell['bounds']['tight']['average_radius']:.3f}" for key, cell in cells.items()
    )


def robust(kind: str) -> Callable[[], str]:
    """Training with the dual bound."""

    def told() -> str:
        cells = [cell for key, cell in found("stn-wsmk18")["cells"].items() if key.startswith(kind)]
        shares = [fmean(cell[key] for cell in cells) for key in ("certified", "natural")]
        return f"{shares[0]:.1%} certified, {shares[1]:.1%} natural, {len(cells)} seeds, {cells[0]['images']} images"

    return told


def cost_of_224() -> str:
    """Seconds to certify one large image."""
    told = found("stn-imagenet")
    return f"{told['seconds_an_image']:.0f} s an image at {told['n']:,} votes ({told['network']}), {told['total']}"


def page() -> str:
    """The whole page."""
    sys.path.insert(0, str(ROOT / "tools"))
    from papers_items import PAPERS

    lines = [
        "# The four papers, item by item",
        "",
        "Written by `python tools/papers.py` from the JSON under `results/`; a test fails where they differ.",
        'Each study\'s command, commit and seeds stand in its JSON. "not measured" means what it says.',
    ]
    for title, items in PAPERS.items():
        lines += ["", f"## {title}", "", "| item | in the code | tested in | the paper | here | why they differ |"]
        lines += ["|---|---|---|---|---|---|", *map(_row, items)]
    return "\n".join(lines) + "\n"


def _row(item: Item) -> str:
    code, test = (_places(text) for text in (item.code, item.test))
    cells = (item.name, code, test, item.paper, _ours(item), item.why)
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _places(text: str) -> str:
    return ", ".join(f"`{place}`" for place in text.split()) or "–"


def _ours(item: Item) -> str:
    if isinstance(item.ours, str):
        return item.ours
    try:
        return item.ours()
    except (KeyError, IndexError, ValueError, StopIteration, TypeError):
        return NOT


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/papers.md has drifted: run python tools/papers.py")
    PAGE.write_text(page())
