"""A copy from answers somebody else bought: what is held out decides, and more than once where it is little."""

import math

import pytest
import torch

from leakmeter.box import Box
from leakmeter.data.columns import Columns
from leakmeter.extraction import given as module
from leakmeter.extraction.auto import Auto
from leakmeter.extraction.given import Given, chosen, copies_from, copy_from, single_ways
from leakmeter.extraction.trials import Candidate
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.victims.load import load_victim
from leakmeter.victims.spec import VictimSpec


def spec(*shape: int) -> VictimSpec:
    return VictimSpec("m", shape, Box(torch.tensor(0.0), torch.tensor(1.0)), 3, "probs")


def ways(**agreement: float) -> dict[tuple[Candidate, ...], float]:
    return {(Candidate(name, "labels", "none"),): value for name, value in agreement.items()}


def test_of_a_table_the_best_is_taken_with_a_second_kind_as_good() -> None:
    found = chosen(ways(linear=0.7, boosted=0.9, bagged=0.89, dense=0.6), 100, spec(5))
    assert [one.student for one in found] == ["boosted", "bagged"]
    (alone,) = chosen(ways(linear=0.7, boosted=0.95, bagged=0.8), 100, spec(5))
    assert alone.student == "boosted"


def test_of_pictures_the_likelier_is_taken_within_an_error() -> None:
    (found,) = chosen(ways(lenet=0.89, convolutional=0.9, dense=0.91), 100, spec(1, 8, 8))
    assert found.student == "lenet"
    (found,) = chosen(ways(lenet=0.7, convolutional=0.9, dense=0.91), 100, spec(1, 8, 8))
    assert found.student == "convolutional"


@pytest.mark.parametrize(("n", "times"), [(20, 1), (60, 3), (400, 2), (700, 1)])
def test_few_answers_are_held_out_again(n: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = load_victim(torch.nn.Linear(3, 2), input_shape=(3,), low=0.0, high=1.0)
    x = torch.rand(n, 3, generator=torch.Generator().manual_seed(1))
    asked: list[int] = []
    original = module.Chooser.compared

    def counted(self: module.Chooser, name: str) -> dict[tuple[Candidate, ...], float]:
        asked.append(self.job.seed)
        return original(self, name)

    monkeypatch.setattr(module.Chooser, "compared", counted)
    answers = Given(x, Oracle(victim, "probs").query(x))
    copy = copy_from(answers, victim.spec, 0, effort=0.02, students=("linear",))
    assert len(set(asked)) == (times if n >= 40 else len(asked))
    assert (copy(x).argmax(1) == answers.answer.labels).float().mean() > 0.9


def test_of_a_table_every_answer_is_held_out_once() -> None:
    from sklearn.tree import DecisionTreeClassifier

    kinds = {"a": {"low": 0, "high": 1}, "b": {"low": 0, "high": 1}}
    x = torch.rand(300, 2, generator=torch.Generator().manual_seed(2))
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(
        x.numpy(), ((x[:, 0] > 0.5) ^ (x[:, 1] > 0.3)).numpy()
    )
    victim = load_victim(tree, columns=Columns.parse(kinds))
    answers = Given(x[:150], Oracle(victim, "labels").query(x[:150]))
    copy = copy_from(answers, victim.spec, 0, effort=0.02, students=("linear", "bagged"))
    truth = Oracle(victim, "labels").query(x[150:]).labels
    assert (copy(x[150:]).argmax(1) == truth).float().mean() > 0.9
    again = copy_from(answers, victim.spec, 0, effort=0.02, students=("linear", "bagged"))
    assert torch.equal(copy(x), again(x))


@pytest.mark.parametrize("view", ["labels", "probs", "probs:2", "top:1"])
@pytest.mark.parametrize("shape", [(4,), (1, 8, 8)])
def test_thieves_of_every_kind_learn_the_same_answers(shape: tuple[int, ...], view: str) -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(math.prod(shape), 3))
    victim = load_victim(network, input_shape=shape, low=0.0, high=1.0)
    x = torch.rand(60, *shape, generator=torch.Generator().manual_seed(3))
    given = Given(x, Oracle(victim, view).query(x))
    names = ("linear", "bagged") if len(shape) == 1 else ("lenet", "linear")
    copies = copies_from(given, victim.spec, 0, effort=0.02, students=names)
    assert len(copies) == 3
    assert next(iter(copies)) == "auto"
    for copy in copies.values():
        assert copy(x).shape == (60, 3)
    again = copies_from(given, victim.spec, 0, effort=0.02, students=names)
    assert all(torch.equal(copies[name](x), again[name](x)) for name in copies)


@pytest.mark.parametrize("n", [1, 2, 12])
def test_thieves_make_something_of_very_few_answers_of_one_class(n: int) -> None:
    kinds = {"a": {"low": 0, "high": 1}, "b": {"low": 0, "high": 1}}
    network = torch.nn.Linear(2, 2)
    network.load_state_dict({"weight": torch.zeros(2, 2), "bias": torch.tensor([1.0, 0.0])})
    victim = load_victim(network, columns=Columns.parse(kinds))
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(4))
    copies = copies_from(Given(x, Oracle(victim, "probs").query(x)), victim.spec, 0, effort=0.02)
    assert all((copy(x).argmax(1) == 0).all() for copy in copies.values())


def test_of_large_pictures_one_network_is_distilled_and_of_tables_every_student_is() -> None:
    colour = single_ways(("residual", "convolutional"), View.parse("probs"), spec(3, 32, 32))
    assert [str(way) for way in colour] == ["residual, softened"]
    small = single_ways(("lenet", "dense", "linear"), View.parse("labels"), spec(1, 8, 8))
    assert [str(way) for way in small] == ["lenet, labels", "linear, labels"]
    assert len(single_ways(("linear", "boosted", "bagged"), View.parse("probs"), spec(5))) == 3


def test_rows_that_may_be_pictures_are_learned_as_pictures_too() -> None:
    """Whoever asked a network of flat pictures may well have known: a copy of rows alone would be stated too low."""
    torch.manual_seed(0)
    filters = torch.nn.Conv2d(1, 3, 3)
    network = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 8, 8)), filters, torch.nn.Flatten(2), Largest())
    victim = load_victim(network, input_shape=(64,), low=0.0, high=1.0, classes=3, outputs="logits")
    x = torch.rand(60, 64, generator=torch.Generator().manual_seed(1))
    answers = Given(x, Oracle(victim, "probs").query(x))
    chooser = module._chooser(Auto(), answers, victim.spec, 0)
    assert chooser.students[0] == "lenet"
    assert "linear" in chooser.students
    copies = copies_from(answers, victim.spec, 0, effort=0.02, students=("lenet", "linear"))
    assert all(copy(x).shape == (60, 3) for copy in copies.values())


class Largest(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(2)
