"""The data-free studies: their arithmetic, and with the datasets at hand one quick run of each."""

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from leakmeter.errors import UsageError
from leakmeter.studies import ROWS, STUDIES, copies, strangers, thieves
from leakmeter.studies.codfe import fig2
from leakmeter.studies.codfe.table3 import settled
from leakmeter.studies.copies import at, median_over_seeds, over_seeds, share_over_seeds
from leakmeter.studies.dfme import settings as choice
from leakmeter.studies.options import StudyOptions
from leakmeter.victims.load import load_victim

DATA = os.environ.get("LEAKMETER_DATA")
NAMES = [
    "few-answers",
    "procedural",
    "procedural-generator",
    "dfme-table4",
    "dfme-logits",
    "dfme-gradients",
    "codfe-fig2",
    "codfe-fig3",
    "codfe-table3",
    "codfe-dast",
]
RESNET20 = ["dfme-pools", "dfme-settings", "dfme-fig7", "dfme-replays", "codfe-cifar10"]


def test_learning_is_settled_where_the_share_foreseen_comes_near_its_highest() -> None:
    shares = [0.2, 0.5, 0.79, 0.81, 0.8]
    answers = [{"queries": 10 * i, "foreseen": share} for i, share in enumerate(shares, 1)]
    assert settled(answers) == 30


def test_codfe_s_studies_take_one_dataset_of_theirs(tmp_path: Path) -> None:
    assert fig2.datasets(StudyOptions(tmp_path)) == ("mnist", "fashion-mnist")
    assert fig2.datasets(StudyOptions(tmp_path, data="fashion-mnist")) == ("fashion-mnist",)
    with pytest.raises(UsageError, match="expected --data mnist or fashion-mnist, got svhn"):
        STUDIES["codfe-table3"](StudyOptions(tmp_path, data="svhn"))


@pytest.mark.parametrize(
    ("dataset", "accuracy", "verdict"),
    [("mnist", 0.95, "met"), ("mnist", 0.5, "missed"), ("fashion-mnist", 0.95, "undecided")],
)
def test_learning_that_ends_early_is_worth_nothing_where_the_copy_is_worse(
    dataset: str, accuracy: float, verdict: str
) -> None:
    cell = {
        "curve": [{"queries": 10, "accuracy": accuracy}],
        "notes": {"answers": [{"queries": 10, "foreseen": 0.9, "class_entropy": 2.3}]},
    }
    (row,) = ROWS["codfe-table3"]({"cells": {f"{dataset}/probs/codfe/seed0": cell}})
    assert row.verdict == verdict


def test_a_curve_is_read_at_or_before_a_number_of_queries() -> None:
    cell = {"curve": [{"queries": 10}, {"queries": 20}, {"queries": 30}]}
    assert at(cell, 25)["queries"] == 20
    assert at(cell, 30)["queries"] == 30


def test_means_over_seeds_carry_their_values_and_interval() -> None:
    facts = over_seeds([0.9, 0.92, 0.94], 1000)
    assert facts["mean"] == pytest.approx(0.92)
    assert facts["interval"]["low"] < 0.9 < 0.94 < facts["interval"]["high"]
    assert facts["interval"]["n"] == 3
    assert facts["interval"]["low"] < 0.4  # three seeds that agree do not exclude one in five that fails
    scores = [
        {"accuracy": 0.9, "victim_accuracy": 0.8, "n": 1000},
        {"accuracy": 0.8, "victim_accuracy": 0.9, "n": 1000},
    ]
    share = share_over_seeds(scores)
    assert share["values"] == pytest.approx([1.125, 8 / 9])
    assert 1.125 < share["interval"]["high"] <= 1.25
    gain = median_over_seeds([-3.0, 1.0, 2.0])
    assert (gain["median"], gain["interval"]["low"], gain["interval"]["high"]) == (1.0, -3.0, 2.0)
    assert gain["interval"]["confidence"] == 0.75


def test_a_copy_that_was_killed_is_not_paid_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[int] = []

    def answer(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        return np.eye(10)[(x.reshape(len(x), -1).sum(1) * 10).astype(int) % 10]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    victim = load_victim(answer, input_shape=(1, 8, 8), low=0.0, high=1.0, classes=10, outputs="probs")
    monkeypatch.setattr(copies, "victim_of", lambda *_: victim)
    made = partial(copies.steal, StudyOptions(tmp_path), "dast", "digits", view="probs", stops=[60], seed=0, width=2)
    with monkeypatch.context() as once:
        once.setattr(copies, "save_network", killed)
        with pytest.raises(KeyboardInterrupt):
            made(batch=20, student="mlp:8")
    asked.clear()
    copy = made(batch=20, student="mlp:8")
    assert (sum(asked), copy.facts["curve"][-1]["queries"], copy.sheet.exists()) == (0, 60, True)
    assert not list((tmp_path / "leakmeter" / "copies").glob("*/"))
    assert made(batch=20, student="mlp:8").facts == copy.facts


def test_a_copy_made_by_other_code_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack's defaults are part of the code, so one that changed makes another copy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[int] = []

    def answer(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        return np.eye(10)[np.arange(len(x)) % 10]

    victim = load_victim(answer, input_shape=(1, 8, 8), low=0.0, high=1.0, classes=10, outputs="probs")
    monkeypatch.setattr(copies, "victim_of", lambda *_: victim)
    recipe = {"steps": 2, "batch": 8}
    made = partial(
        copies.steal,
        StudyOptions(tmp_path),
        "surrogate",
        "digits",
        view="probs",
        stops=[20],
        seed=0,
        student="linear",
        recipe=recipe,
    )
    made()
    asked.clear()
    made()
    assert not asked
    monkeypatch.setattr(copies, "fingerprint", lambda: "other code")
    made()
    assert sum(asked) >= 20


def test_what_an_attacker_chooses_is_not_what_test_data_would() -> None:
    cells = [
        {"settings": {"a": {"held_out": 0.5, "accuracy": 0.4}, "b": {"held_out": 0.6, "accuracy": 0.3}}},
        {"settings": {"a": {"held_out": 0.7, "accuracy": 0.5}, "b": {"held_out": 0.6, "accuracy": 0.5}}},
    ]
    assert [choice.chosen(cell["settings"]) for cell in cells] == ["b", "a"]
    assert choice.best(cells) == "a"
    found = {"steps": 7, "cells": {}}
    for number, cell in enumerate(cells):
        found["cells"][f"svhn/seed{number}"] = {**cell, "queries": 10, "n": 1000, "victim_accuracy": 0.8}
    by_answers, by_test = choice.rows(found)
    assert by_answers.ours.startswith("50.0%")  # of 0.3 / 0.8 and 0.5 / 0.8
    assert by_test.ours.startswith("56.2%")
    assert by_answers.budget.endswith("b and a")


@pytest.mark.parametrize(("accuracies", "met"), [([0.103], False), ([0.12], True), ([0.12, 0.09], False)])
def test_a_copy_is_above_chance_only_where_its_interval_is(accuracies: list[float], met: bool) -> None:
    curves = [[{"queries": 100, "accuracy": accuracy, "n": 5000}] for accuracy in accuracies]
    cells = {f"dfme/seed{k}": {"curve": curve, "notes": {}} for k, curve in enumerate(curves)}
    (row,) = ROWS["dfme-fig7"]({"cells": cells})
    assert row.met is met


def test_norms_are_settled_on_what_the_network_will_see() -> None:
    network = torch.nn.Sequential(torch.nn.BatchNorm2d(2))
    x = torch.randn(40, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * 5 + 7
    settled = strangers.settle(network, torch.split(x, 10))
    out = settled(x)
    assert out.mean().abs() < 0.01
    assert abs(out.std() - 1) < 0.05
    assert not settled.training


def test_what_the_victims_own_examples_do_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    victim = load_victim(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), input_shape=(1, 2, 2), low=0.0, high=1.0
    )
    made, real = [], thieves.examples_on
    monkeypatch.setattr(thieves, "examples_on", lambda *a, **k: made.append(1) or real(*a, **k))
    x, y = torch.rand(6, 1, 2, 2), torch.arange(6) % 2
    for eps in (0.1, 0.1, 0.2):
        thieves._on_victim(victim, "fgsm", x, y, None, {"seed": 0, "norm": "linf", "eps": eps})
    assert len(made) == 2


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="needs the datasets: set LEAKMETER_DATA")
@pytest.mark.parametrize("name", NAMES + RESNET20)
def test_a_quick_run_writes_its_command_and_goes_on_from_its_cells(name: str, tmp_path: Path) -> None:
    if name in RESNET20 and "LEAKMETER_VICTIMS" not in os.environ:
        pytest.skip("needs the networks that others trained: set LEAKMETER_VICTIMS")
    settings = StudyOptions(tmp_path, seeds=1, quick=True, data_dir=Path(DATA or ""))
    first = STUDIES[name](settings)
    assert ROWS[name](first)
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["command"].startswith(f"leakmeter study {name} --seed 0 --seeds 1 --quick")
    assert STUDIES[name](settings)["cells"] == first["cells"] == written["cells"]
