"""Figures of docs/exact.md."""

from __future__ import annotations

from typing import Any

from tests.docs.readers import Figure

PAGE = "docs/exact.md"


def _values(found: dict[str, Any]) -> tuple[Any, ...]:
    rows = found["values"]["rows"]
    assert [row["certificate"]["exact"] for row in rows] == [True, True, False, True, True]
    bits = [row["certificate"]["bits"] for row in rows]
    return bits[2], min(bits[:2] + bits[3:]), max(bits)


def _soak(found: dict[str, Any]) -> tuple[Any, ...]:
    counts = found["counts"]
    assert not any("FALSELY" in outcome for outcome in counts)
    return len(found["rows"]), counts["exact"], counts["incomplete"], counts["stopped"], counts["exception"]


EXACTLY: list[Figure] = [
    (
        PAGE,
        "{:.0f} runs, {:.0f} exact and right, {:.0f} declared incomplete, {:.0f} stopped, {:.0f} ended by an exception",
        "bench/exact_soak.json",
        _soak,
    ),
    (
        PAGE,
        "width 16, one seed: depth 1, 2 and 3 exact at {:.1f}, {:.1f} and {:.1f} queries a unit",
        "exact-depth/exact-depth.json",
        lambda found: tuple(found["cells"][f"width 16, depth {n}, seed 10"]["queries"] / (16 * n) for n in (1, 2, 3)),
    ),
    (
        PAGE,
        "seed 2 of the five ends with an error of 2^-{:.1f} (the others 2^-{:.1f} to 2^-{:.1f}) and is not exact",
        "bench/exact.json",
        _values,
    ),
    (
        PAGE,
        "at 1,024 units the paper's algorithm declared failure after {:.0f} queries a unit",
        "exact-queries/exact-queries.json",
        lambda found: (found["queries_per_unit"]["paper"]["1024"],),
    ),
]
