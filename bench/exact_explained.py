"""Exact copies through what is shown instead of the gradient: queries against those that gradients take, and the error.

    python bench/exact_explained.py [--seed 100] [--seeds 3]

Random networks of one hidden layer, logits shown. Writes results/bench/exact-explained.json.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from _keep import keep

from leakmeter.studies.ours.exact_queries import random_network, run_exact

UNITS = (16, 64)
VIEWS = ("gradient", "gradxinput", "integrated:10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    command = f"python bench/exact_explained.py --seed {given.seed} --seeds {given.seeds}"
    rows: list[dict[str, Any]] = []
    for h in UNITS:
        for seed in range(given.seed, given.seed + given.seeds):
            net = random_network(h, seed=seed)
            for view in VIEWS:
                row = {"units": h, "seed": seed, "view": view, **run_exact(net, f"logits+{view}", seed=seed)}
                plain = next(each for each in reversed([*rows, row]) if each["view"] == VIEWS[0])
                rows.append({**row, "times": row["queries"] / plain["queries"]})
                print(f"784-{h}-1 seed {seed} {view:14} {row['queries']:6,} queries", rows[-1], flush=True)
    worst = {view: max(row["times"] for row in rows if row["view"] == view) for view in VIEWS}
    keep("exact-explained", {"command": command, "worst": worst, "rows": rows}, show=False)


if __name__ == "__main__":
    main()
