"""`exact-tree` against scikit-learn: identical where it says so, path finding, honest where it falls short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import leakmeter as lm
from leakmeter.data.columns import Column, Columns
from leakmeter.errors import NotApplicable
from leakmeter.extraction.conformance import check_attack
from leakmeter.extraction.exact_tree.attack import ExactTree
from leakmeter.extraction.exact_tree.axes import Axes, Axis
from leakmeter.victims.victim import Question, Victim

QUESTION = Question(torch.Generator())

COLUMNS = Columns(
    [
        Column(name="Age", kind="integer", low=18, high=80),
        Column(name="Amount", low=0.0, high=1000.0),
        Column(name="Purpose", kind="categorical", levels=("car", "house", "other", "tv")),
        Column(name="red", kind="onehot", group="colour"),
        Column(name="green", kind="onehot", group="colour"),
        Column(name="blue", kind="onehot", group="colour"),
    ]
)


def victim(model: Any, seed: int = 0, rows: int = 600) -> Victim:
    """A model of the columns above, whose leaves all differ as sizes of leaves do."""
    x = COLUMNS.uniform(rows, torch.Generator().manual_seed(seed))
    score = (x[:, 0] - 40) * (x[:, 2] - 1) / 20 + (x[:, 1] > 300) * 2 - x[:, 4] + torch.sin(x[:, 1] / 100)
    noise = torch.randn(rows, generator=torch.Generator().manual_seed(seed + 1))
    model.fit(x.numpy(), (score + noise > 0.5).numpy().astype(int))
    loaded = lm.load_victim(model, low=COLUMNS.low, high=COLUMNS.high)
    loaded.spec = replace(loaded.spec, columns=COLUMNS)
    return loaded


def wrong(copy: torch.nn.Module, target: Victim, n: int = 20_000) -> float:
    """The share of fresh points whose probabilities differ."""
    x = target.spec.sample(n, torch.Generator().manual_seed(99))
    return float(((copy(x).softmax(1) - target.compute(x, QUESTION)).abs().amax(1) > 1e-6).double().mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tree_is_copied_to_the_last_threshold(seed: int) -> None:
    target = victim(DecisionTreeClassifier(max_depth=4, random_state=0), seed)
    found = lm.extract("exact-tree", lm.Oracle(target, budget=3000), seed=seed)
    assert found.findings.exact
    assert wrong(found.substitute, target) == 0


def test_thresholds_are_named_in_the_owners_columns() -> None:
    target = victim(DecisionTreeClassifier(max_depth=1, random_state=0))
    found = lm.extract("exact-tree", lm.Oracle(target, budget=500), seed=0, proof=200)
    [(name, [threshold])] = found.notes["exact-tree"]["thresholds"].items()
    assert found.findings.units == 2
    assert threshold.startswith(f"{name} > ")


def test_labels_alone_give_the_same_labels() -> None:
    target = victim(DecisionTreeClassifier(max_depth=3, random_state=0))
    found = lm.extract("exact-tree", lm.Oracle(target, view="labels", budget=4000), seed=0)
    x = target.spec.sample(5000, torch.Generator().manual_seed(7))
    same = found.substitute(x).argmax(1) == target.compute(x, QUESTION).argmax(1)
    assert float(same.double().mean()) > 0.995


def test_codes_of_a_category_may_be_parted_as_any_set() -> None:
    columns = Columns([Column(name="c", kind="categorical", levels=(0, 1, 2, 3, 4)), Column(name="a", low=0, high=1)])

    def odd(x: np.ndarray) -> np.ndarray:
        return 0.25 + 0.5 * np.isin(x[:, 0], [1, 3]) * (x[:, 1] > 0.3)

    target = lm.load_victim(odd, columns=columns)
    found = lm.extract("exact-tree", lm.Oracle(target, budget=3000), seed=0)
    assert found.findings.exact
    rows = target.spec.sample(5000, torch.Generator().manual_seed(1))
    assert torch.equal(found.substitute(rows).argmax(1), lm.Oracle(target).query(rows).labels)


def test_a_copy_is_not_called_complete_without_the_proof_or_with_values_missing() -> None:
    target = victim(DecisionTreeClassifier(max_depth=3, random_state=0))
    found = lm.extract("exact-tree", lm.Oracle(target, budget=900), seed=0)
    assert not found.findings.complete
    assert "2,000 to call a copy complete" in str(found.findings.missing)
    assert wrong(found.substitute, target) == 0  # and yet it is the tree, not a student
    target.spec = replace(target.spec, columns=Columns([c.model_copy(update={"missing": True}) for c in COLUMNS]))
    found = lm.extract("exact-tree", lm.Oracle(target, budget=3000), seed=0)
    assert "missing values" in str(found.findings.missing)


def test_path_finding_copies_a_small_tree_for_more_queries() -> None:
    target = victim(DecisionTreeClassifier(max_depth=3, random_state=0))
    ours, papers = (lm.Oracle(target, budget=5000) for _ in range(2))
    lm.extract("exact-tree", ours, seed=0, patience=0, proof=0)
    found = lm.extract("exact-tree", papers, seed=0, method="paper")
    assert wrong(found.substitute, target) < 0.05
    assert ours.ledger.spent() < papers.ledger.spent()


def test_a_forest_on_few_cells_is_asked_whole_and_copied() -> None:
    columns = Columns([Column(name=f"c{j}", kind="integer", low=0, high=high) for j, high in enumerate((2, 1, 1, 20))])
    x = columns.uniform(500, torch.Generator().manual_seed(0)).numpy()
    y = (x[:, 3] + 4 * x[:, 0] * x[:, 1] + np.random.default_rng(0).normal(size=500) * 3 > 9).astype(int)
    target = lm.load_victim(RandomForestClassifier(3, random_state=0).fit(x, y), low=columns.low, high=columns.high)
    target.spec = replace(target.spec, columns=columns)
    found = lm.extract("exact-tree", lm.Oracle(target, budget=1000), seed=0)
    assert found.notes["exact-tree"]["every_point_asked"]
    assert wrong(found.substitute, target) == 0
    cells = target.spec.sample(5000, torch.Generator().manual_seed(1))  # some of them ties of the three trees
    assert torch.equal(found.substitute(cells).argmax(1), target.compute(cells, QUESTION).argmax(1))


def test_a_budget_that_ends_is_told() -> None:
    target = victim(RandomForestClassifier(30, random_state=0))
    found = lm.extract("exact-tree", lm.Oracle(target, budget=200), seed=0)
    assert not found.findings.complete
    assert "budget" in str(found.findings.missing)


def test_pictures_and_open_boxes_are_refused() -> None:
    picture = lm.load_victim(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), input_shape=(1, 8, 8), low=0, high=1
    )
    table = lm.load_victim(torch.nn.Linear(3, 2), low=None, high=None)
    for target in (picture, table):
        with pytest.raises(NotApplicable, match="exact-tree"):
            lm.extract("exact-tree", lm.Oracle(target, budget=10))


@pytest.mark.parametrize("method", ["parts", "paper"])
def test_it_keeps_the_rules_of_attacks(method: str) -> None:
    check_attack(ExactTree(method=method), victim=victim(DecisionTreeClassifier(max_depth=4, random_state=0)))


@given(st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32))
@settings(max_examples=200)
def test_halving_ends_at_neighbouring_floats(one: float, other: float) -> None:
    below, above = sorted((one, other))
    axis = Axis("a", (0,), -1e6, 1e6, whole=False)
    target = below + (above - below) * 0.3
    for _ in range(80):
        middle = axis.between(below, above)
        if middle is None:
            break
        assert below < middle < above
        below, above = (middle, above) if middle <= target else (below, middle)
    assert below == above or np.nextafter(np.float32(below), np.float32(above)) == np.float32(above)


def test_axes_make_rows_the_columns_admit() -> None:
    axes = Axes(COLUMNS)
    assert [axis.name for axis in axes] == ["Age", "Amount", "Purpose", "colour"]
    rows = axes.rows([(20.0, 3.5, 2.0, 1.0)], torch.float64)
    assert rows.tolist() == [[20.0, 3.5, 2.0, 0.0, 1.0, 0.0]]
    COLUMNS.admit(rows)
