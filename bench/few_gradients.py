"""Ten explained answers of a network of MNIST: what made copies of one better than of another, one change at a time.

    python bench/few_gradients.py [--seed 110] [--seeds 1]

First LeNet, as `study explanations` once copied it (into its like, from the thief's own ten pictures, probabilities,
400 steps, answers first), with the wide student that the attack has now, with SmoothGrad instead of gradients, and with
no pictures of one's own; then from `milli-fig2` (a network of 32 and 64 filters, logits, 1,000 steps of both losses
together) towards the first. Writes results/bench/few-gradients.json after each row.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from _keep import keep

import leakmeter as lm
from leakmeter.studies.milli._victims import paper_victim, shared_out
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours._panels import Panel, pictures
from leakmeter.training.loop import Recipe

QUERIES, TEST = 10, 2000
SETTINGS = StudyOptions(out=Path())


@dataclass(frozen=True)
class Setting:
    """What is copied into what, from which answers to which queries, and how."""

    victim: str
    student: str
    view: str
    steps: int
    joint: bool
    pool: str = "mnist"


_BEFORE = Setting("lenet", "lenet", "probs+gradient", 400, joint=False)
_WIDE = replace(_BEFORE, student="lenet:24")
_PAPER = Setting("milli-conv", "milli-conv", "logits+gradient", 1000, joint=True)
ROWS = {
    "narrow": _BEFORE,
    "wide": _WIDE,
    "wide, SmoothGrad": replace(_WIDE, view="probs+smoothgrad:10,0.1"),
    "wide, drawn pictures": replace(_WIDE, pool="usual"),
    "wide, noise": replace(_WIDE, pool="gaussian"),
    "as in milli-fig2": _PAPER,
    "milli-fig2, probabilities": replace(_PAPER, view="probs+gradient"),
    "milli-fig2, probabilities, 400 steps": replace(_PAPER, view="probs+gradient", steps=400),
    "milli-fig2, narrow": replace(_BEFORE, victim="milli-conv", joint=True),
    "narrow, both losses together": replace(_BEFORE, joint=True),
}


@cache
def panel(victim: str, seed: int) -> Panel:
    """The victim with the thief's pictures of the seed, which are the same for both."""
    lenet = pictures(SETTINGS, seed)
    if victim == "lenet":
        return lenet
    return replace(lenet, victim=paper_victim(SETTINGS, "mnist", victim, shared_out("mnist", None), seed))


def copied(setting: Setting, seed: int) -> float:
    """The fidelity of the copy."""
    of = panel(setting.victim, seed)
    made = lm.extract(
        "gradients",
        lm.Oracle(of.victim, setting.view, QUERIES, seed=seed),
        seed=seed,
        test=(of.test[0][:TEST], of.test[1][:TEST]),
        pool=of.pool[:QUERIES] if setting.pool == "mnist" else setting.pool,
        student=setting.student,
        joint=setting.joint,
        recipe=Recipe(steps=setting.steps, batch=16, lr=5e-3, schedule="cyclic"),
    )
    score = made.curve[-1].score
    assert score is not None
    return score.fidelity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=110)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    command = f"python bench/few_gradients.py --seed {given.seed} --seeds {given.seeds}"
    rows: dict[str, Any] = {name: asdict(setting) | {"fidelity": []} for name, setting in ROWS.items()}
    for seed in range(given.seed, given.seed + given.seeds):
        for name, setting in ROWS.items():
            rows[name]["fidelity"].append(copied(setting, seed))
            print(f"seed {seed} {name:38} {rows[name]['fidelity'][-1]:.3f}", flush=True)
            keep("few-gradients", {"command": command, "queries": QUERIES, "n": TEST, "rows": rows}, show=False)


if __name__ == "__main__":
    main()
