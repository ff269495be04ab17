"""How figures are read from the JSON files of studies and benches."""

from __future__ import annotations

from collections.abc import Callable
from math import log10
from statistics import fmean
from typing import Any

from leakmeter.evaluation.cheaper import cheaper, queries_to

Read = Callable[[dict[str, Any]], tuple[Any, ...]]
Figure = tuple[str, str, str, Read]
"""The page, its text with places for figures, the file under results/, and what reads the figures from it."""


def at(*paths: str, times: float = 1.0) -> Read:
    """Numbers by their places, keys parted by `/` (a slash within a key is a NUL); along a list a key counts."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(times * value if isinstance(value := _at(found, path), float) else value for path in paths)

    return read


def _at(found: Any, path: str) -> Any:
    for key in (part.replace("\0", "/") for part in path.split("/")):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def copied(dataset: str, arm: str, queries: int) -> Read:
    """Share of the victim's accuracy, and fidelity: means over the seeds of `procedural`."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        row = procedural_row(found, dataset, arm, queries)
        return row["accuracy_over_victim"]["mean"], row["fidelity"]["mean"]

    return read


def procedural_row(found: dict[str, Any], dataset: str, arm: str, queries: int) -> dict[str, Any]:
    """One row of the summary of `procedural`."""
    (rows,) = (each["rows"] for each in found["summary"] if (each["dataset"], each["arm"]) == (dataset, arm))
    (row,) = (row for row in rows if row["queries"] == queries)
    return dict(row)


def shares(dataset: str, arm: str, queries: int) -> Read:
    """The mean share of the victim's accuracy, and that of every seed."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        share = procedural_row(found, dataset, arm, queries)["accuracy_over_victim"]
        return share["mean"], *share["values"]

    return read


def transfer(row: str) -> Read:
    """The copy's rate and those of its controls, in per cent."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        (line,) = (line for line in found["table"] if line["row"] == row)
        return tuple(100 * line[key] for key in ("copy", "noise", "untrained", "white_box"))

    return read


def learned(panel: str, arm: str, *queries: int) -> Read:
    """Mean accuracy over seeds at each number of queries, in per cent (the studies of Milli et al.)."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        starts = [f"{panel} | {arm} | {n} |" for n in queries]
        return tuple(
            100 * fmean(cell["accuracy"] for key, cell in found["cells"].items() if key.startswith(start))
            for start in starts
        )

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
    """The paper's algorithm: queries a unit at the last size at which it ended, and at the next, where it gave up."""
    assert "failure" in found["cells"]["paper, 1 outputs, h=1024, seed 0"]
    return found["queries_per_unit"]["paper"]["256"], found["queries_per_unit"]["paper"]["1024"]


def trained(found: dict[str, Any]) -> tuple[Any, ...]:
    """Queries a unit of the network trained on MNIST, seen with probabilities and gradients."""
    rows = [row for row in found["trained"]["rows"] if row["view"] == "probs+gradient"]
    (row,) = [row for row in rows if row["certificate"]["units"] == 128]
    assert row.get("agreement", row.get("fidelity")) == 1.0
    return (row["queries"] / 128,)


def certified(cell: str) -> Read:
    """A row of STN's table: certified at 1.58 by each bound, the smoothed network's accuracy, the average radius."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        facts = found["cells"][cell]
        rates = [
            100 * next(point["accuracy"] for point in facts["bounds"][bound]["certified"] if point["radius"] == 1.58)
            for bound in ("tight", "renyi", "pixeldp")
        ]
        radius = facts["bounds"]["tight"]["average_radius"]
        return *rates, 100 * facts["natural_smoothed"], radius

    return read


def left(*points: tuple[str, float]) -> Read:
    """Accuracy that is left, in per cent, of a cell at a size of attack."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            100 * next(point["accuracy"] for point in found["cells"][f"{cell}/seed0"] if point["eps"] == eps)
            for cell, eps in points
        )

    return read


def thief(where: str) -> Read:
    """A row of the transfer table: accuracy, FGSM, BIM, PGD, PGD to the second choice, controls, the paper's PGD."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        rows = {line["row"]: line for line in found["table"]}
        plain = rows[f"{where}/untargeted/pgd"]
        rates = [rows[f"{where}/untargeted/{name}"]["copy"] for name in ("fgsm", "bim", "pgd")]
        rates += [rows[f"{where}/targeted/pgd"]["copy"], plain["noise"], plain["untrained"], plain["white_box"]]
        paper = [] if plain["paper"] is None else [100 * plain["paper"]]
        return 100 * plain["accuracy"], *(100 * rate for rate in rates), *paper

    return read


def fixed_class(found: dict[str, Any]) -> tuple[Any, ...]:
    """PGD to one class for all, to each input's second choice, anywhere; on the victim itself; the paper's."""
    rows = {line["row"].removeprefix("mnist/probs/real/"): line for line in found["table"]}
    far = rows["second class/pgd"]
    assert far["noise"] == 0
    rates = [rows[f"{goal}/pgd"]["copy"] for goal in ("second class", "targeted", "untargeted")]
    return tuple(100 * rate for rate in (*rates, far["white_box"], far["paper"]))


def final(dataset: str, view: str, arm: str) -> Read:
    """Mean share of the victim's accuracy over the seeds of `codfe-fig2`."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        start = f"{dataset}/{view}/{arm}/"
        cells = [cell["curve"][-1] for key, cell in found["cells"].items() if key.startswith(start)]
        return (fmean(point["accuracy_over_victim"] for point in cells),)

    return read


def pooled(victim: str, pool: str) -> Read:
    """A row of DFME's table 4: the highest share, and the paper's where it has one."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        (row,) = (row for row in found["summary"] if (row["victim"], row["pool"]) == (victim, pool))
        return row["highest"], *([] if row["paper"] is None else [row["paper"]])

    return read


def curves(found: dict[str, Any], panel: str, arm: str) -> list[list[tuple[int, float]]]:
    """One curve a seed of a panel of Milli et al.'s figures."""
    made: dict[str, list[tuple[int, float]]] = {}
    for key, cell in found["cells"].items():
        where, how, queries, seed = key.split(" | ")
        if (where, how) == (panel, arm):
            made.setdefault(seed, []).append((int(queries), cell["accuracy"]))
    return [sorted(points) for points in made.values()]


def factor(panel: str) -> Read:
    """How much cheaper gradients make a copy: the ends of the median's interval, and the accuracy it is at."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        times = cheaper(curves(found, panel, "membership"), curves(found, panel, "membership + gradient"))
        assert times.interval.confidence == 0.75
        return times.interval.low, times.interval.high, 100 * times.level

    return read


def ten_are_worth(found: dict[str, Any], *panels: str) -> tuple[Any, ...]:
    """How many probabilities reach what ten gradients do, for each of the ten; the same for all panels and seeds."""
    worth = set()
    for panel in panels:
        pairs = zip(curves(found, panel, "membership"), curves(found, panel, "membership + gradient"), strict=True)
        worth |= {queries_to(dict(explained)[10], plain) for plain, explained in pairs}
    ((fewest, most),) = worth
    return fewest / 10, most / 10


def defended(found: dict[str, Any]) -> tuple[float, ...]:
    """On MNIST: queries, the best copy without a defense, behind misinformation, what that costs, and behind others."""
    rows = {row["defense"]: row for row in found["table"] if row["dataset"] == "mnist"}
    best = {name: row["best"]["mean"] for name, row in rows.items()}
    lied = "misinformation:0.9"
    others = min(value for name, value in best.items() if name not in ("none", lied))
    return found["budgets"]["mnist"], best["none"], best[lied], rows[lied]["accuracy_loss"], others


def hostile(found: dict[str, Any]) -> tuple[Any, ...]:
    """What damaged files and a hostile server did: mutations a format, formats, and the storm's counts."""
    storm = found["storm"]
    files = [each for key, each in found.items() if key.startswith("file: ")]
    assert all(each["tracebacks"] == each["crashes"] == 0 for each in files)
    assert max(each["slowest"] for each in files) < 5
    assert max(each["largest"] for each in files) < 1e9
    assert storm["finished"] == storm["runs"]
    assert storm["runs_with_uncounted_rows"] == storm["runs_over_budget"] == 0
    (mutations,) = {each["mutations"] for each in files}
    counts = (storm[key] for key in ("runs", "behaviours", "kills", "rows_seen", "rows_counted"))
    return mutations, len(files), *counts


def one_at_a_time(found: dict[str, Any]) -> tuple[str]:
    """Every setting of `milli-gaussian` and what it reaches."""
    cells = {key.rpartition(" | ")[0]: cell["accuracy"] for key, cell in found["cells"].items()}
    return ("; ".join(f"{name} {100 * accuracy:.1f} %" for name, accuracy in cells.items()),)


def hull(found: dict[str, Any]) -> tuple[Any, ...]:
    """How far the dual bound is from its program at most, and on how many networks below that of the ReLU's hull."""
    cell = found["cells"]["100 programs"]
    assert cell["above_hull"] < 1e-9
    return cell["largest_difference"], cell["looser_than_hull"]
