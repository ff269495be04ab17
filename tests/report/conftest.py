"""Synthetic audits: every section of a report, without training anything."""

import io
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from leakmeter.evaluation.intervals import exact
from leakmeter.evaluation.score import ClassScore, Score
from leakmeter.evaluation.transfer import FlipRate, Transfer
from leakmeter.extraction.base import CurvePoint
from leakmeter.plan import Plan
from leakmeter.results import AuditResult, CellResult, Certified, Spending, VictimFacts
from leakmeter.verdict import judge

N = 1000
STRENGTH = {"labels": 0.55, "top:3": 0.75, "probs": 0.9, "logits": 0.97, "probs+gradient": 0.98}

SHOWN = ("gradient", "occlusion:2")

MakeAudit = Callable[..., AuditResult]


def score(fidelity: float) -> Score:
    same = round(min(max(fidelity, 0.0), 1.0) * N)
    return Score(
        n=N,
        fidelity=same / N,
        fidelity_interval=exact(same, N),
        accuracy=same / N * 0.97,
        accuracy_interval=exact(round(same * 0.97), N),
        victim_accuracy=0.97,
        kl=0.1,
        max_error=1.0,
    )


def cell(
    number: int, attack: str, options: dict[str, Any], view: str, defense: str, seed: int, budget: int, **more: Any
):
    top = STRENGTH.get(view, 0.8) * (1.05 - 0.08 * number) * (1.0 if defense == "none" else 0.85)
    stops = [budget // 2**k for k in (5, 4, 3, 2, 1, 0)]
    wobble = 0.015 * math.sin(7 * seed + 3 * number)
    curve = [CurvePoint(queries=q, score=score(top * (1 - 0.6 * (stops[0] / q) ** 0.5) + wobble)) for q in stops]
    return CellResult(
        id=f"{number}-{attack}_{view.replace(':', '-')}_{defense.replace(':', '-')}_seed{seed}",
        attack=attack,
        options=options,
        view=view,
        defense=defense,
        seed=seed,
        budget=budget,
        status="done",
        curve=curve,
        untrained=score(0.11),
        spending=Spending(queries=budget, evaluation=N, money=budget * 0.001),
        seconds=12.5,
        **more,
    )


@pytest.fixture(scope="session")
def make_audit() -> MakeAudit:
    """An audit of any size; `notes` are given to every cell, `changes` to the plan."""

    def make(
        *,
        attacks: int = 3,
        views: tuple[str, ...] = ("probs", "labels"),
        defenses: tuple[str, ...] = ("none",),
        seeds: int = 3,
        budget: int = 8000,
        victim: str = "shop.models:fraud_net",
        notes: dict[str, Any] | None = None,
        **changes: Any,
    ) -> AuditResult:
        kinds = [("procedural", {}), ("dfme", {}), ("surrogate", {"pool": "gaussian"})]
        kinds += [("surrogate", {"pool": f"pool-{k}"}) for k in range(attacks)]
        cells = [
            cell(k, name, options, view, defense, seed, budget, control=k == attacks - 1 > 0, notes=notes or {})
            for defense in defenses
            for view in views
            for k, (name, options) in enumerate(kinds[:attacks])
            for seed in range(seeds)
        ]
        plan = Plan.model_validate(
            {"name": "quarterly", "victim": {"source": victim}, "views": views, "seeds": range(seeds), "budget": budget}
            | {"defenses": defenses, "data": {"name": "digits"}}
            | changes
        )
        return AuditResult(
            created="2030-01-02T03:04:05Z",
            plan=plan.model_dump(mode="json"),
            environment={"leakmeter": "0.1.0", "python": "3.11", "threads": 1},
            victim=VictimFacts(
                name=victim,
                input_shape=(1, 28, 28),
                classes=10,
                outputs="logits",
                accuracy=0.97,
                test="mnist",
                test_size=N,
            ),
            cells=cells,
            verdict=judge(plan, cells),
        )

    return make


@pytest.fixture(scope="session")
def thief() -> Callable[..., Transfer]:
    return make_transfer


def make_transfer(success: float, n: int = 100) -> Transfer:
    """What the thief of a cell found."""

    def rate(value: float) -> FlipRate:
        k = round(value * n)
        return FlipRate(value=k / n, n=n, interval=exact(k, n))

    return Transfer(
        attack="pgd",
        norm="linf",
        eps=0.3,
        targeted=False,
        copy_rate=rate(success),
        noise_rate=rate(0.05),
        untrained_rate=rate(0.08),
        white_box_rate=rate(0.95),
    )


@pytest.fixture(scope="session")
def full_audit(make_audit: MakeAudit) -> AuditResult:
    """An audit with something in every section."""
    result = make_audit(
        defenses=("none", "rounding:1", "noise:0.1"),
        prices={"query": 0.001},
        policy={"max_fidelity": {"queries": 8000, "value": 0.85}, "min_copy_cost": {"fidelity": 0.9, "queries": 100}},
        queries_per_day=500,
        notes={
            "detector": {"detector": "PRADA", "fired_at": 420, "queries": 8000},
        },
    )
    lost = {"none": (0.0, 0.0), "rounding:1": (0.001, 0.03), "noise:0.1": (0.012, 0.08)}
    cells = [
        each.model_copy(
            update={
                "transfer": make_transfer(0.61),
                "class_scores": [ClassScore(n=100, same=90 - 5 * k) for k in range(10)],
                "notes": each.notes
                | {"utility": {"accuracy_loss": lost[each.defense][0], "distortion": lost[each.defense][1]}},
            }
        )
        for each in result.cells
    ]
    cells += [cell(0, "gradients", {}, f"probs+{shown}", "none", s, 8000) for shown in SHOWN for s in range(3)]
    points = [(0.0, 0.93), (0.25, 0.81), (0.5, 0.6), (0.75, 0.33), (1.0, 0.1)]
    certified = Certified(label="sigma 0.5", n=500, alpha=0.001, points=points)
    victim = result.victim.model_copy(update={"class_names": [f"digit {k}" for k in range(10)]})
    return result.model_copy(update={"cells": cells, "certified": certified, "victim": victim})


@cache
def noise_png(seed: int, size: tuple[int, int]) -> bytes:
    """A picture that compresses as badly as queries do."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def hang_pictures() -> Callable[..., None]:
    """Puts pictures beside every cell of a result, all different."""

    def hang(result: AuditResult, folder: Path, size: tuple[int, int] = (134, 542), name: str = "queries.png") -> None:
        for seed, each in enumerate(result.cells):
            place = folder / "cells" / each.id
            place.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(noise_png(seed, size))

    return hang
