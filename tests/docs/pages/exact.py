"""Figures of docs/exact.md."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

from tests.docs.readers import Figure

PAGE = "docs/exact.md"


def _deep(part: str) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Queries a unit of runs that are all exact, at least and at most."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        rows = found[part]["rows"]
        assert all(row["certificate"]["exact"] for row in rows)
        asked = [row["queries a unit"] for row in rows]
        return max(row["certificate"]["relative_error"] for row in rows), min(asked), max(asked)

    return read


def _three_layers(found: dict[str, Any]) -> tuple[Any, ...]:
    (row,) = found["deep 784-128-64-32-10"]["rows"]
    assert row["certificate"]["exact"]
    assert row["layers"] == [128, 64, 32]
    return row["certificate"]["relative_error"], row["queries a unit"], row["CPU seconds"]


def _by_values(part: str) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Runs that are all exact from values alone: how far off at most, and what that took."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        rows = found[part]["rows"]
        assert all(row["certificate"]["exact"] for row in rows)
        worst = max(row["certificate"]["relative_error"] for row in rows)
        asked = sorted(row["queries"] for row in rows)
        bits = min(row["certificate"]["bits"] for row in rows)
        return len(rows), worst, bits, asked[0], asked[-1], log2(asked[0]), log2(asked[-1])

    return read


def _single_rows(found: dict[str, Any], start: str) -> list[Any]:
    return [row for row in found["float32 values"]["rows"] if row["run"].startswith(start)]


def _single(found: dict[str, Any]) -> tuple[Any, ...]:
    rows = _single_rows(found, "16-32-")
    assert all(row["certificate"]["complete"] and row["certificate"]["exact"] for row in rows)
    asked = [row["queries a unit"] for row in rows]
    worst = max(row["certificate"]["relative_error"] for row in rows)
    return len(rows), worst, 100 * min(row["agreement"] for row in rows), min(asked), max(asked)


def _single_logits(found: dict[str, Any]) -> tuple[Any, ...]:
    rows = _single_rows(found, "784-128-10, logits")
    assert not any(row["certificate"]["complete"] for row in rows)
    worst = max(row["certificate"]["relative_error"] for row in rows)
    return len(rows), 100 * min(row["agreement"] for row in rows), worst, *sorted(r["queries a unit"] for r in rows)


def _single_probs(found: dict[str, Any]) -> tuple[Any, ...]:
    rows = _single_rows(found, "784-128-10, probs")
    assert not any(row["certificate"]["complete"] for row in rows)
    units = [row["certificate"]["units"] for row in rows]
    return len(rows), *units, *(100 * row["agreement"] for row in rows), max(row["queries a unit"] for row in rows)


def _acas(found: dict[str, Any]) -> tuple[Any, ...]:
    (row,) = found["acasxu-1-1"]["rows"]
    assert not row["certificate"]["complete"]
    assert row["handed_over"] == "a dense student above the first layer"
    (units,) = row["layers"]
    return units, 100 * row["agreement"], row["queries a unit"]


def _stranger(found: dict[str, Any]) -> tuple[Any, ...]:
    (row,) = found["mnist-mlp-256x2"]["rows"]
    assert not row["certificate"]["complete"]
    assert row["handed_over"] == "the layers found, completed by learning"
    return *row["layers"], 100 * row["agreement"], row["queries a unit"], row["CPU seconds"]


def _trained_deep(found: dict[str, Any]) -> tuple[Any, ...]:
    """Two trained networks of two hidden layers: what they agree, their units, and what that took."""
    rows = found["trained deep"]["rows"]
    units = [units for row in rows for units in row["layers"]]
    error = rows[1]["certificate"]["relative_error"]
    took = [row[what] for what in ("queries a unit", "CPU seconds") for row in rows]
    return *(100 * row["agreement"] for row in rows), *units, error, *took


def _trained(found: dict[str, Any]) -> tuple[Any, ...]:
    rows = [row for part in ("trained", "trained 256") for row in found.get(part, {"rows": []})["rows"]]
    rows = [row for row in rows if row["view"] == "probs+gradient"]
    assert {row.get("agreement", row.get("fidelity")) for row in rows} == {1.0}
    return tuple(row["queries"] / row["certificate"]["units"] for row in rows)


def _depth(width: int, depth: int, exact: list[bool]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Queries a unit of the runs of one shape, which were exact or not."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        cells = [found["cells"][f"width {width}, depth {depth}, seed {seed}"] for seed in range(30, 30 + len(exact))]
        assert [cell["certificate"]["exact"] for cell in cells] == exact
        return tuple(cell["queries"] / (width * depth) for cell in cells)

    return read


def _soak(found: dict[str, Any]) -> tuple[Any, ...]:
    counts = found["counts"]
    assert not any("FALSELY" in outcome for outcome in counts)
    assert "exception" not in counts
    return len(found["rows"]), counts["exact"], counts["incomplete"], counts["stopped"]


def _soaked(found: dict[str, Any]) -> tuple[Any, ...]:
    """Of networks that are such: exact, and all; in open space, in a box; in double and in single precision."""
    rows = [row for row in found["rows"] if row["kind"] == "relu"]
    kinds = [("box", False), ("box", True), ("dtype", "float64"), ("dtype", "float32")]
    parts = [rows] + [[row for row in rows if row[key] == value] for key, value in kinds]
    return tuple(n for part in parts for n in (sum(row["outcome"] == "exact" for row in part), len(part)))


def _soak_mended(found: dict[str, Any]) -> tuple[Any, ...]:
    counts = found["counts"]
    assert not any("FALSELY" in outcome for outcome in counts)
    return len(found["rows"]), counts["exact"], counts["incomplete"], counts["stopped"], counts["exception"]


_BY_VALUES = (
    "{:.0f} | all exact, relative error at most {:.1e}, error at most 2^-{:.1f} | {:,.0f} to {:,.0f} values, "
    "2^{:.1f} to 2^{:.1f}"
)
_SHAPES = [
    ("784-128-1", "values"),
    ("40-20-10-10-1", "deep 40-20-10-10-1"),
    ("80-40-20-1", "deep 80-40-20-1"),
]

EXACTLY: list[Figure] = [
    (
        PAGE,
        "{:.0f} runs in three minutes, {:.0f} exact and right, {:.0f} declared incomplete, {:.0f} stopped in 20 "
        "seconds, none falsely exact, {:.0f} exception",
        "bench/exact_soak_12000.json",
        _soak_mended,
    ),
    *(
        (PAGE, f"| {shape}, float64, open | logits | " + _BY_VALUES, "bench/exact.json", _by_values(part))
        for shape, part in _SHAPES
    ),
    (
        PAGE,
        "| logits and probs | {:.0f} | all exact, relative error at most {:.1e}, {:.0f} % agreement on 10,000 random "
        "points | {:.1f} to {:.1f} values a unit",
        "bench/exact.json",
        _single,
    ),
    (
        PAGE,
        "| {:.0f} | {:.0f} % agreement on 10,000 random points, relative error at most {:.1e}; yet declared "
        "incomplete, because rounding is taken to hide more than it does | {:,.0f} and {:,.0f} values a unit",
        "bench/exact.json",
        _single_logits,
    ),
    (
        PAGE,
        "| {:.0f} | declared incomplete: {:.0f} and {:.0f} units for its 128, agreement {:.1f} % and {:.1f} % on "
        "10,000 random points | {:,.0f} values a unit",
        "bench/exact.json",
        _single_probs,
    ),
    (
        PAGE,
        "one layer, of {:.0f} units for its 50; handed over is a dense student above it, {:.1f} % agreement on 100,000 "
        "points | {:.1f} a hidden unit",
        "bench/exact.json",
        _acas,
    ),
    (
        PAGE,
        "which learned from the {:,.0f} questions that the search had left",
        "bench/exact.json",
        lambda found: (found["acasxu-1-1"]["rows"][0]["learned_from"],),
    ),
    (
        PAGE,
        "declared incomplete: {:.0f} and {:.0f} units; handed over completed by learning, {:.1f} % agreement on 10,000 "
        "test images | {:.1f} a hidden unit, in {:.0f} CPU seconds",
        "bench/exact.json",
        _stranger,
    ),
    (
        PAGE,
        "{:.1f} % right by squared errors, {:.1f} % by the sharp probabilities above, and a constant {:.1f} %",
        "bench/exact_plain.json",
        lambda found: tuple(100 * found["rows"][0][name] for name in ("squares", "sharp", "constant")),
    ),
    (
        PAGE,
        "{:.0f} runs, {:.0f} exact and right, {:.0f} declared incomplete, {:.0f} stopped, **none falsely exact**",
        "bench/exact_soak.json",
        _soak,
    ),
    (
        PAGE,
        "{:.0f} runs, {:.0f} exact and right, {:.0f} declared incomplete, {:.0f} stopped after 20 seconds, none",
        "bench/exact_soak_8000.json",
        _soak,
    ),
    (
        PAGE,
        "{:.0f} runs, {:.0f} exact and right, {:.0f} declared incomplete, {:.0f} stopped in 20 seconds, none",
        "bench/exact_soak_10000.json",
        _soak,
    ),
    (
        PAGE,
        "{:.0f} runs, {:.0f} exact and right, {:.0f} declared incomplete, {:.0f} stopped after 6 seconds, none falsely "
        "exact, {:.0f} exception",
        "bench/exact_soak_31000.json",
        _soak_mended,
    ),
    (
        PAGE,
        "{:.0f} of {:.0f} are exact: {:.0f} of {:.0f} in open space, {:.0f} of {:.0f} in a box; "
        "{:.0f} of {:.0f} in double precision, {:.0f} of {:.0f} in single",
        "bench/exact_soak.json",
        _soaked,
    ),
    (PAGE, "| 1 | {:.1f} and {:.1f}, exact |", "exact-depth/exact-depth.json", _depth(16, 1, [True, True])),
    (PAGE, "exact | {:.1f} and {:.1f}, exact | | 2 |", "exact-depth/exact-depth.json", _depth(32, 1, [True, True])),
    (PAGE, "| 2 | {:.1f} and {:.1f}, exact |", "exact-depth/exact-depth.json", _depth(16, 2, [True, True])),
    (PAGE, "exact | {:.1f} and {:.1f}, exact | | 3 |", "exact-depth/exact-depth.json", _depth(32, 2, [True, True])),
    (PAGE, "| 3 | {:.1f} and {:.1f}, exact |", "exact-depth/exact-depth.json", _depth(16, 3, [True, True])),
    (PAGE, "exact | {:.1f}, exact; {:.1f}, a unit short", "exact-depth/exact-depth.json", _depth(32, 3, [True, False])),
    (
        PAGE,
        "| 4 | {:.1f} and {:.1f}, all that they were given",
        "exact-depth/exact-depth.json",
        _depth(16, 4, [False, False]),
    ),
    (
        PAGE,
        "| 1 | exact, relative error {:.1e} | {:.1f} a hidden unit",
        "bench/exact.json",
        lambda found: _deep("deep 128-16x3-10")(found)[:2],
    ),
    (
        PAGE,
        "784-64-32-10, float64, open | logits+gradient | 5 | all exact, relative error at most {:.1e} | {:.1f} to "
        "{:.1f} a hidden unit",
        "bench/exact.json",
        _deep("deep 784-64-32-10"),
    ),
    (
        PAGE,
        "| 1 | exact, relative error {:.1e} | {:.1f} a hidden unit, in {:.0f} CPU seconds |",
        "bench/exact.json",
        _three_layers,
    ),
    (
        PAGE,
        "(wider than the input), float64, open | logits+gradient | 5 | all exact, relative error at most {:.1e} | "
        "{:.1f} to {:.1f} a hidden unit",
        "bench/exact.json",
        _deep("deep 10-20-20-1"),
    ),
    (
        PAGE,
        "100 % agreement on 10,000 test images | {:.1f} and {:.1f} a hidden unit",
        "bench/exact.json",
        _trained,
    ),
    (
        PAGE,
        "| 2 | {:.2f} % and {:.2f} % agreement on 10,000 test images: seed 0, on which this was developed, declared "
        "incomplete at {:.0f} and {:.0f} units and completed by learning; seed 1 exact, {:.0f} and {:.0f} units, "
        "relative error {:.1e} | {:.1f} and {:.1f} a hidden unit, in {:.0f} and {:.0f} CPU",
        "bench/exact.json",
        _trained_deep,
    ),
    (
        PAGE,
        "at 1,024 units the paper's algorithm declared failure after {:.0f} queries a unit",
        "exact-queries/exact-queries.json",
        lambda found: (found["queries_per_unit"]["paper"]["1024"],),
    ),
]
