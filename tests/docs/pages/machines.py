"""Figures of docs/scaling.md and docs/remote.md."""

from __future__ import annotations

from tests.docs.readers import Figure, at

SCALING, REMOTE = "docs/scaling.md", "docs/remote.md"
MACHINES: list[Figure] = [
    (
        SCALING,
        "two one-thread workers are {:.2f} as efficient as one, each of 8 cells of about {:.0f} s; a cell takes no "
        "longer on a worker than in the driver's own process, within the noise of the measurement ({:.2f} s)",
        "bench/cluster.json",
        lambda found: (found["efficiency"], found["one_worker_seconds"] / 8, found["overhead_seconds_per_cell"]),
    ),
    (
        SCALING,
        "at {} MB with 10,000 jobs that do nothing, {} MB with 1,000",
        "bench/cluster.json",
        at("driver/1/peak_mb", "driver/0/peak_mb"),
    ),
    (
        SCALING,
        "it predicted {:.0f} s on one worker, which took {:.0f} ({:.0f} % too little), and {:.0f} s on two, which took "
        "{:.0f} ({:.0f} %)",
        "bench/scaling.json",
        lambda found: tuple(
            value
            for row in found["6000 queries x 10 attacks x 2 seeds, predicted and run"]
            for value in (row["predicted"], row["seconds"], -100 * row["error"])
        ),
    ),
    (
        SCALING,
        "| predicted hours | {:.0f} | {:.1f} | {:.1f} | {:.1f} | | times faster | {:.0f} | {:.0f} | {:.0f} | {:.0f} |",
        "bench/scaling.json",
        lambda found: tuple(
            row[key]
            for key in ("hours", "times faster")
            for row in found["20000000 queries x 10 attacks x 5 seeds, predicted"]
        ),
    ),
    (
        REMOTE,
        "{:.2f} of the bare client's throughput on 28 × 28 images, {:.2f} on rows of 20 features",
        "bench/remote.json",
        at("images/oracle_over_bare", "features/oracle_over_bare"),
    ),
    (
        REMOTE,
        "encoded beforehand it is {:.2f} and {:.2f}",
        "bench/remote.json",
        at("images/oracle_over_encoded", "features/oracle_over_encoded"),
    ),
    (
        REMOTE,
        "(the plain medians there are {:.2f} apart)",
        "bench/remote.json",
        lambda found: (found["features"]["oracle_rows_per_second"] / found["features"]["bare_rows_per_second"],),
    ),
    (REMOTE, "(load {:.1f})", "bench/remote.json", at("load_average_before")),
]
