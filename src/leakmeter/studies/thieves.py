"""What the transfer studies share: a copy made once, then every attack on it measured on the victim with controls."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from torch import Tensor, nn

from leakmeter.certificates.counts_file import fingerprint
from leakmeter.data.catalogue import load
from leakmeter.evaluation.transfer import examples_on, measure_transfer
from leakmeter.evasion.goal import Target
from leakmeter.extraction.base import make_student, student_name
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import derive
from leakmeter.studies.copies import StolenCopy, victim_of
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.rows import Row, by_group, share
from leakmeter.victims.victim import Victim

ATTACKS: dict[str, dict[str, Any]] = {"fgsm": {}, "bim": {"steps": 20}, "pgd": {"steps": 20}}
GOALS: dict[str, Target] = {"untargeted": None, "targeted": "second", "second class": 1}
"""`second class` is what the paper calls targeted, one class for all inputs ("we use the second class as target for all
three datasets"); inputs of that class are left out. `targeted` is ours: each input's own second choice."""
EPS = {"mnist": 0.2, "fashion-mnist": 0.1, "cifar10": round(8 / 255, 4)}
"""Largest change of a pixel in [0, 1]. The paper does not state its own: its rates stand beside ours only."""
IMAGES = 1000


def attack_with(
    settings: StudyOptions, copy: StolenCopy, *, goals: Sequence[str] = tuple(GOALS), images: int = IMAGES
) -> dict[str, Any]:
    """A copy's quality, and the rate at which each kind of example made on it flips the victim."""
    facts, test = copy.facts, load(copy.facts["dataset"], "test", settings.data_dir)
    seed, eps = facts["seed"], EPS[facts["dataset"]]
    victim = victim_of(settings, facts["dataset"], facts["victim"], seed)
    oracle = Oracle(victim, facts["view"])
    x, y = test.labelled()
    n = 50 if settings.quick else images
    student = student_name(facts["options"].get("student"), oracle.spec)
    untrained = make_student(student, oracle.spec, derive(seed, "untrained"))
    transfers = {}
    for goal in goals:
        target = GOALS[goal]
        left = y[:n] != (target if isinstance(target, int) else -1)
        for name, options in ATTACKS.items():
            chosen = {"seed": seed, "progress": settings.progress, "norm": "linf", "eps": eps, **options}
            strongest: nn.Module | Tensor = victim.white_box
            if target != "second":  # which depends on the copy
                strongest = _on_victim(victim, name, x[:n][left], y[:n][left], target, chosen)
            thief = measure_transfer(
                name,
                copy.network,
                oracle,
                x[:n][left],
                y[:n][left],
                target=target,
                untrained=untrained,
                white_box=strongest,
                **chosen,
            )
            transfers[f"{goal}/{name}"] = thief.transfer.model_dump()
    known = {key: facts[key] for key in ("attack", "dataset", "view", "seed", "options")}
    last = facts["curve"][-1]
    quality = {key: last[key] for key in ("queries", "accuracy", "fidelity", "n")}
    return {**known, **quality, "eps": eps, "images": n, "transfers": transfers}


_MADE: dict[str, Tensor] = {}


def _on_victim(victim: Victim, attack: str, x: Tensor, y: Tensor, target: Target, chosen: dict[str, Any]) -> Tensor:
    """Examples on the victim itself: made once a process, for all its copies."""
    told = {key: value for key, value in chosen.items() if key != "progress"}
    key = f"{fingerprint(victim.white_box, x)} {attack} {target} {sorted(told.items())}"
    if key not in _MADE:
        _MADE[key] = examples_on(victim.white_box, attack, victim.spec, x, y, target=target, **chosen).examples
    return _MADE[key]


def transfer_rows(cells: dict[str, Any], paper: dict[str, float]) -> list[Row]:
    """One row for each copy, goal and attack, with controls; the paper's ε is not known, so rates do not compare."""
    rows = []
    for name, group in by_group(cells).items():
        for what in group[0]["transfers"]:
            rates = [cell["transfers"][what] for cell in group]
            beside = [
                fmean(rate[f"{arm}_rate"]["value"] for rate in rates) for arm in ("noise", "untrained", "white_box")
            ]
            budget = f"{group[0]['queries']:,} queries, ε {group[0]['eps']:g}; noise/untrained/white box " + "/".join(
                f"{100 * rate:.1f}" for rate in beside
            )
            values = [rate["copy_rate"]["value"] for rate in rates]
            key, n = f"{name}/{what}", rates[0]["copy_rate"]["n"]
            rows.append(share(key, values, n, budget, paper=paper.get(key), comparable=False))
    return rows


def table(cells: dict[str, Any], paper: dict[str, float]) -> list[dict[str, Any]]:
    """One row for each copy, goal and attack: means over seeds, with the paper's rate where it has one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for key, cell in cells.items():
        for what, transfer in cell["transfers"].items():
            groups.setdefault(f"{key.rpartition('/')[0]}/{what}", []).append({"cell": cell, "transfer": transfer})
    return [_row(key, found, paper.get(key)) for key, found in groups.items()]


def _row(key: str, found: list[dict[str, Any]], paper: float | None) -> dict[str, Any]:
    def mean(rate: str) -> float:
        values = [each["transfer"][rate]["value"] for each in found]
        return float(sum(values) / len(values))

    return {
        "row": key,
        "seeds": len(found),
        "accuracy": sum(each["cell"]["accuracy"] for each in found) / len(found),
        "copy": mean("copy_rate"),
        "noise": mean("noise_rate"),
        "untrained": mean("untrained_rate"),
        "white_box": mean("white_box_rate"),
        "paper": paper,
    }
