"""Students of trees against their definition, rows that keep to the columns, and the attack on tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import leakmeter as lm
from leakmeter.data.columns import Column, Columns
from leakmeter.errors import NotApplicable
from leakmeter.evaluation.score import predict
from leakmeter.extraction.base import AttackJob
from leakmeter.extraction.conformance import check_attack
from leakmeter.extraction.sources.published import published
from leakmeter.extraction.sources.tables import amounts, as_rows, beside_thresholds, every_row
from leakmeter.extraction.students import STUDENTS, Lesson
from leakmeter.extraction.students.added import parts
from leakmeter.extraction.students.trees import scores
from leakmeter.extraction.tabular import Tabular
from leakmeter.models.saved import load_network, save_network
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View
from leakmeter.victims.victim import Victim

COLUMNS = Columns(
    [
        Column(name="Age", kind="integer", low=18, high=80),
        Column(name="Gain", kind="integer", low=0, high=90_000),
        Column(name="Job", kind="categorical", levels=("a", "b", "c")),
    ]
)


def victim(classes: int = 2, model: Any = None) -> Victim:
    x = COLUMNS.uniform(800, torch.Generator().manual_seed(0)).numpy()
    x[:, 1] *= np.random.default_rng(0).random(800) < 0.3
    score = x[:, 0] / 20 + (x[:, 1] > 3000) * 2 - x[:, 2]
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    made = GradientBoostingClassifier(n_estimators=20, random_state=0) if model is None else model
    return lm.load_victim(made.fit(x, y), columns=COLUMNS)


def lesson(target: Victim, view: str, reading: Any, n: int = 600) -> Lesson:
    x = target.spec.sample(n, torch.Generator().manual_seed(1)).float()
    answer = lm.Oracle(target, view=view).query(x)
    job = AttackJob(0, torch.device("cpu"))
    return Lesson(x, answer, reading, "none", target.spec, job, 3, "test", 0.2)


@pytest.mark.parametrize("student", ["boosted", "bagged"])
@pytest.mark.parametrize(("view", "reading"), [("probs", "logits"), ("probs", "softened"), ("labels", "labels")])
@pytest.mark.parametrize("classes", [2, 3])
def test_trees_learn_what_they_are_shown(student: str, view: str, reading: str, classes: int, tmp_path: Path) -> None:
    target = victim(classes)
    given = lesson(target, view, reading)
    copy = STUDENTS[student].fit(given)
    outputs = predict(copy, given.x)
    assert outputs.shape == (len(given.x), classes)
    assert float((outputs.argmax(1) == given.answer.labels).double().mean()) > 0.95
    again = STUDENTS[student].fit(given)
    assert torch.equal(predict(again, given.x), outputs)
    save_network(copy, tmp_path / "copy.safetensors", "trees", target.spec.input_shape, classes)
    assert torch.equal(predict(load_network(tmp_path / "copy.safetensors"), given.x), outputs)


@pytest.mark.parametrize("student", ["boosted", "bagged", "kernel", "dense"])
@pytest.mark.parametrize("n", [1, 60])
def test_a_column_that_is_missing_in_all_rows_is_learned_past(student: str, n: int) -> None:
    given = lesson(victim(2), "probs", "logits", n)
    given.x[:, 1] = torch.nan
    assert predict(STUDENTS[student].fit(given), given.x).isfinite().all()


@pytest.mark.parametrize("student", ["boosted", "bagged"])
@pytest.mark.parametrize("answered", [[2], [0, 2], [1, 2]])
def test_classes_never_answered_are_never_named(student: str, answered: list[int]) -> None:
    given = lesson(victim(3), "labels", "labels", n=60)
    labels = torch.tensor(answered)[torch.arange(60) % len(answered)]
    given = replace(given, answer=Answer(View("labels"), 3, {"labels": labels}))
    outputs = predict(STUDENTS[student].fit(given), given.x)
    assert outputs.shape == (60, 3)
    assert set(outputs.argmax(1).tolist()) <= set(answered)


def test_a_kernel_learns_more_from_the_scores_of_many_trees_than_trees_do() -> None:
    columns = Columns([Column(name=f"c{j}", low=0, high=1) for j in range(6)])
    x, noise = columns.uniform(500, torch.Generator().manual_seed(0)).numpy(), np.random.default_rng(0).normal(size=500)
    model = GradientBoostingClassifier(n_estimators=60, max_depth=5, random_state=0)
    target = lm.load_victim(model.fit(x, x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * noise > 0.75), columns=columns)
    given = replace(lesson(target, "probs", "logits", n=1000), seconds=4.0)
    fresh = target.spec.sample(2000, torch.Generator().manual_seed(5)).float()
    wanted = lm.Oracle(target).query(fresh).probs.logit()[:, 1]
    errors = {}
    for student in ("kernel", "boosted"):
        outputs = predict(STUDENTS[student].fit(given), fresh)
        errors[student] = float((outputs[:, 1] - outputs[:, 0] - wanted).square().mean())
    assert errors["kernel"] < errors["boosted"]


@pytest.mark.parametrize(("view", "reading"), [("probs", "logits"), ("probs", "softened"), ("labels", "labels")])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_kernel_reads_every_view_the_same_way_twice(view: str, reading: str, classes: int) -> None:
    target = victim(classes)
    given = lesson(target, view, reading, n=300)
    outputs = predict(STUDENTS["kernel"].fit(given), given.x)
    assert outputs.shape == (300, classes)
    assert float((outputs.argmax(1) == given.answer.labels).double().mean()) > 0.9
    assert torch.equal(predict(STUDENTS["kernel"].fit(given), given.x), outputs)


def test_a_kernel_of_answers_that_are_all_alike_repeats_them() -> None:
    given = lesson(victim(), "labels", "labels", n=40)
    given = replace(given, answer=Answer(View("labels"), 2, {"labels": torch.ones(40, dtype=torch.long)}))
    assert (predict(STUDENTS["kernel"].fit(given), given.x).argmax(1) == 1).all()


def test_rows_keep_to_the_columns_and_amounts_are_often_small() -> None:
    target = victim()
    draws = torch.Generator().manual_seed(0)
    rows = amounts(3000, target.spec, draws)
    COLUMNS.admit(rows)
    assert 0.2 < float((rows[:, 1] == 0).double().mean()) < 0.5
    student = STUDENTS["boosted"].fit(lesson(target, "probs", "logits"))
    beside = beside_thresholds(3000, target.spec, draws, [student])  # type: ignore[list-item]
    COLUMNS.admit(beside)
    low, high = (float((part[:, 1] < 9000).double().mean()) for part in (target.spec.sample(3000, draws), beside))
    assert high > low  # the victim's thresholds lie among small gains


@pytest.mark.parametrize("view", ["probs", "labels"])
def test_the_attack_copies_a_boosted_model(view: str) -> None:
    target = victim()
    oracle = lm.Oracle(target, view=view, budget=500)
    fresh = target.spec.sample(1000, torch.Generator().manual_seed(9))
    found = lm.extract("tabular", oracle, seed=0, test=fresh, effort=0.3)
    score = found.curve[-1].score
    assert score is not None
    assert score.fidelity > 0.93
    assert oracle.ledger.spent() == 500
    assert sum(trial.chosen for trial in found.findings.tried) == 1


@pytest.mark.parametrize("view", ["probs", "labels"])
@pytest.mark.parametrize("budget", [1, 2, 7, 30])
def test_the_smallest_budgets_give_a_copy(view: str, budget: int) -> None:
    target = victim(3)
    oracle = lm.Oracle(target, view=view, budget=budget)
    found = lm.extract("tabular", oracle, seed=0, stops=sorted({1, budget}), effort=0.3)
    assert predict(found.substitute, target.spec.sample(5, torch.Generator())).shape == (5, 3)


def test_it_keeps_the_rules_of_attacks() -> None:
    attack = Tabular(students=("boosted", "linear"), effort=0.1)
    check_attack(attack, victim=victim(model=RandomForestClassifier(5, random_state=0)))


def test_pictures_are_refused() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    target = lm.load_victim(network, input_shape=(1, 8, 8), low=0, high=1)
    with pytest.raises(NotApplicable, match="tabular"):
        lm.extract("tabular", lm.Oracle(target, budget=10))


def test_a_table_of_few_rows_is_asked_whole() -> None:
    columns = Columns(
        [COLUMNS[0].model_copy(update={"high": 29}), COLUMNS[2], Column(name="Own", kind="integer", low=0, high=1)]
    )
    x = columns.uniform(300, torch.Generator().manual_seed(0)).numpy()
    y = (x[:, 0] * (x[:, 1] - 1) + np.random.default_rng(0).normal(size=300) * 9 > 3).astype(int)
    target = lm.load_victim(RandomForestClassifier(20, random_state=0).fit(x, y), columns=columns)
    oracle = lm.Oracle(target, budget=500)
    found = lm.extract("tabular", oracle, seed=0, stops=[20, 500])
    rows = every_row(target.spec, 72)
    assert rows is not None
    assert oracle.ledger.spent() == len(rows) == len(torch.unique(rows, dim=0)) == 72
    assert every_row(target.spec, 71) is None
    assert found.findings.all_asked
    wanted, copied = lm.Oracle(target).query(rows), predict(found.substitute, rows)
    assert torch.equal(copied.argmax(1), wanted.labels)
    inner = (wanted.probs > 0).all(1)  # no logit says 0
    torch.testing.assert_close(copied.softmax(1)[inner], wanted.probs[inner], atol=1e-5, rtol=0, check_dtype=False)


def test_questions_stay_inside_ends_that_floats_round_over() -> None:
    target = lm.load_victim(
        DecisionTreeClassifier(max_depth=2).fit(np.arange(20.0)[:, None], np.arange(20) > 9), low=-6.9809999, high=6.981
    )
    assert target.spec.dtype == torch.float64
    ends = as_rows(torch.tensor([[-6.9809999], [6.981]]), target.spec)
    target.spec.admit(ends)
    lm.extract("tabular", lm.Oracle(target, budget=60), seed=0, effort=0.1)
    lm.extract("exact-tree", lm.Oracle(target, budget=60), seed=0)


def test_blind_answers_decide_at_every_stop() -> None:
    oracle = lm.Oracle(victim(), budget=200)
    found = lm.extract("tabular", oracle, seed=0, stops=[1, 8, 64, 200], effort=0.2)
    shares = {trial.held_out for trial in found.findings.tried}
    assert len(shares) > 1  # a single row held out could only say 0 or 1
    assert [point.queries for point in found.curve] == [1, 8, 64, 200]


@pytest.mark.parametrize("student", ["boosted", "bagged", "dense", "linear", "kernel"])
def test_rows_with_missing_values_are_learned_and_answered(student: str) -> None:
    columns = Columns([COLUMNS[0], COLUMNS[1].model_copy(update={"missing": True}), COLUMNS[2]])
    x = columns.uniform(400, torch.Generator().manual_seed(0)).numpy()
    x[::5, 1] = np.nan
    model = DecisionTreeClassifier(max_depth=4).fit(x, np.isnan(x[:, 1]) | (x[:, 0] > 50))
    target = lm.load_victim(model, columns=columns)
    rows = amounts(400, target.spec, torch.Generator().manual_seed(1))
    assert 10 < int(rows[:, 1].isnan().sum()) < 80
    answer = lm.Oracle(target).query(rows)
    given = Lesson(rows, answer, "logits", "none", target.spec, AttackJob(0, torch.device("cpu")), 3, "test", 0.3)
    outputs = predict(STUDENTS[student].fit(given), rows)
    assert torch.isfinite(outputs).all()
    least = 0.9 if student in ("boosted", "bagged") else 0.6
    assert float((outputs.argmax(1) == answer.labels).double().mean()) > least


def test_rows_have_the_means_and_shares_that_are_published() -> None:
    columns = Columns(
        [
            Column(name="Age", kind="integer", low=18, high=80, mean=30),
            Column(name="Score", low=0, high=1, mean=0.8),
            Column(name="Gain", kind="integer", low=0, high=90_000, mean=1000),
            Column(name="Job", kind="categorical", levels=("a", "b", "c"), shares=(0.7, 0.3, 0.0)),
            Column(name="Code", kind="categorical", levels=(7, 3), shares=(0.9, 0.1)),
            Column(name="own", kind="onehot", group="home", mean=0.75),
            Column(name="rent", kind="onehot", group="home", mean=0.25),
        ]
    )
    x = columns.uniform(50, torch.Generator().manual_seed(0)).numpy()
    target = lm.load_victim(DecisionTreeClassifier(max_depth=2).fit(x, x[:, 0] > 40), columns=columns)
    rows = published(20_000, target.spec, torch.Generator().manual_seed(0))
    assert rows is not None
    columns.admit(rows)
    wanted = torch.tensor([30, 0.8, 1000, 0.3, 6.6, 0.75, 0.25])
    assert torch.allclose(rows.mean(0), wanted, rtol=0.1)
    assert 0.8 < float((rows[:, 2] == 0).double().mean()) < 0.95
    plain = [column.model_copy(update={"mean": None, "shares": ()}) for column in columns]
    assert published(10, replace(target.spec, columns=Columns(plain)), torch.Generator()) is None


def test_published_means_bring_the_copy_nearer_to_rows_like_those() -> None:
    """Half the questions go where rows are; the victim is rough there."""
    means = {"Age": {"mean": 25.0}, "Gain": {"mean": 300.0}, "Job": {"shares": (0.9, 0.05, 0.05)}}
    columns = Columns([column.model_copy(update=means[column.name]) for column in COLUMNS])
    rows = published(3000, replace(victim().spec, columns=columns), torch.Generator().manual_seed(1))
    assert rows is not None
    x = rows[:1000].double().numpy()
    made = RandomForestClassifier(30, random_state=0).fit(x, np.random.default_rng(0).random(1000) < x[:, 0] / 50)
    fidelity = {}
    for known in (columns, COLUMNS):
        oracle = lm.Oracle(lm.load_victim(made, columns=known), view="probs", budget=600)
        found = lm.extract("tabular", oracle, seed=0, test=rows[1000:], effort=0.3, students=("boosted",))
        score = found.curve[-1].score
        assert score is not None
        fidelity[id(known)] = score.fidelity
    assert fidelity[id(columns)] > fidelity[id(COLUMNS)]


def explained_lesson(view: str, model: Any = None) -> tuple[Lesson, Lesson]:
    """The same answers with and without Shapley values."""
    target = victim(model=model)
    given = [lesson(target, shown, "logits", n=300) for shown in (view, "probs")]
    return given[0], given[1]


def test_what_every_column_adds_to_a_score_is_learned_part_by_part() -> None:
    told, plain = explained_lesson("probs+shap")
    fresh = told.spec.sample(2000, torch.Generator().manual_seed(5)).float()
    wanted = lm.Oracle(victim()).query(fresh).probs.logit()[:, 1]
    errors = []
    for given in (told, plain):
        outputs = predict(STUDENTS["boosted"].fit(replace(given, seconds=2.0)), fresh)
        errors.append(float((outputs[:, 1] - outputs[:, 0] - wanted).square().mean()))
    assert errors[0] < errors[1]


def test_explanations_that_do_not_add_up_are_left_aside() -> None:
    told, plain = explained_lesson("probs+shap", RandomForestClassifier(5, max_depth=4, random_state=0))
    assert parts(told, scores(told)) is None  # of a forest probabilities are explained, not log-odds
    softened = replace(told, reading="softened")
    found = parts(softened, scores(softened))
    assert found is not None
    assert np.allclose(found.sum(2), scores(softened), atol=1e-6)
    assert parts(plain, scores(plain)) is None


def test_scores_are_read_unless_labels_are_surely_better() -> None:
    """Few answers held out choose by luck, and who reads labels learns less."""
    target = victim(model=GradientBoostingClassifier(n_estimators=60, max_depth=5, random_state=0))
    for seed in range(3):
        found = lm.extract("tabular", lm.Oracle(target, view="probs", budget=150), seed=seed, effort=0.3)
        chosen = next(trial.name for trial in found.findings.tried if trial.chosen)
        assert "labels" not in chosen
