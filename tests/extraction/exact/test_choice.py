"""What is handed over when no copy is whole."""

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.choice import best_copy, constant
from leakmeter.extraction.exact.completed import completed
from leakmeter.extraction.exact.copy import hand_over_deep
from leakmeter.extraction.exact.fresh import Answers, ask_fresh, ask_undecided, likely_kinds
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.oracle.answer import to_labels
from leakmeter.seeds import stream
from leakmeter.studies.ours.exact_depth import deep_network


def told(net: nn.Module, x: torch.Tensor) -> Answers:
    x = x.clone().requires_grad_()
    scores = net(x)
    slopes = [torch.autograd.grad(scores[:, c].sum(), x, retain_graph=True)[0] for c in range(scores.shape[1])]
    return Answers(x.detach(), scores.detach(), torch.stack(slopes, 1).float())


def tanh_network(d: int, classes: int) -> nn.Sequential:
    net = deep_network((d, 16, 16, classes), seed=3)
    return nn.Sequential(net[0], nn.Tanh(), net[2], nn.Tanh(), net[4])


@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("view", ["logits+gradient", "logits"])
def test_a_victim_of_another_kind_is_copied_better_than_by_a_constant(view: str, classes: int, oracle) -> None:
    net = tanh_network(6, classes)
    name = "exact" if "gradient" in view else "exact-values"
    asked = oracle(net, view, 6, box=True, budget=2000)
    copy = lm.extract(name, asked)
    assert not copy.findings.complete
    assert "handed over is" in copy.findings.missing
    assert sum(trial.chosen for trial in copy.findings.tried) == 1
    assert asked.ledger.spent() <= 2000
    x = torch.rand(4000, 6).double()
    with torch.no_grad():
        truth, guess = to_labels(net(x)), to_labels(copy.substitute(x))
    assert float((truth == guess).double().mean()) >= float(truth.bincount().max() / len(x)) - 0.01


def test_the_best_at_points_held_out_is_handed_over() -> None:
    net = deep_network((5, 8, 3), seed=0)
    fresh = told(net, torch.rand(200, 5).double())
    copy, tried = best_copy({"one layer": constant(fresh), "the layers found": net}, None, fresh, torch.eye(3), 0)
    assert copy is net
    assert [trial.name for trial in tried if trial.chosen] == ["the layers found"]


def test_a_constant_names_the_commonest_class() -> None:
    fresh = told(deep_network((5, 8, 3), seed=0), torch.randn(300, 5).double())
    assert (to_labels(constant(fresh)(torch.randn(50, 5).double())) == fresh.labels().mode().values).all()


def test_units_that_were_not_found_are_learned_beside_those_that_were() -> None:
    net = deep_network((6, 10, 8, 3), seed=0)
    first, second = (Layer.of(net[i].weight.detach(), net[i].bias.detach()) for i in (0, 2))
    known = Known(
        Stack([first, second[:6]]), net[4].weight.detach()[:, :6], net[4].bias.detach(), torch.zeros(0, 6).double()
    )
    fresh, x = told(net, torch.randn(1500, 6).double()), torch.randn(2000, 6).double()
    copy = completed(known, fresh, torch.eye(3).double(), seed=0)
    before, after = ((each(x) - net(x)).norm() for each in (hand_over_deep(known, torch.eye(3).double()), copy))
    assert after < 0.5 * before
    assert torch.allclose(copy.hidden.weight[:10], net[0].weight, atol=1e-6)


def test_a_search_leaves_what_is_reserved(oracle, network) -> None:
    asker = Asker(oracle(network(4, 6), "logits", 6, budget=100))
    asker.reserve = 40
    assert asker.room(100) == 60
    with asker.whole_budget():
        assert asker.room(100) == 100
    assert asker.room(100) == 60
    assert len(ask_fresh(asker, stream(0, "test"))) == 100
    assert len(ask_fresh(asker, stream(0, "test"))) == 0


def test_what_is_left_is_asked_where_a_copy_is_undecided(oracle) -> None:
    net = deep_network((6, 10, 8, 3), seed=0)
    asker = Asker(oracle(net, "logits+gradient", 6, box=True, budget=901))
    draws = stream(0, "test")
    fresh = ask_fresh(asker, draws)
    rounds = [fresh, *(ask_undecided(asker, net, len(fresh), draws) for _ in range(3))]
    assert [len(answers) for answers in rounds] == [301, 301, 299, 0]
    first, second = ((best := answers.scores.topk(2, 1).values)[:, 0] - best[:, 1] for answers in rounds[:2])
    assert float(second.median()) < 0.7 * float(first.median())


def test_answers_to_what_is_undecided_are_learned_from_and_not_judged_by() -> None:
    net = deep_network((5, 8, 3), seed=0)
    fresh, students = told(net, torch.rand(200, 5).double()), []

    def more(student: nn.Module) -> Answers:
        students.append(student)
        return told(net, torch.rand(200, 5).double())

    _, tried = best_copy({"one layer": constant(fresh)}, None, fresh, torch.eye(3), 0, more)
    assert len(students) == 2
    assert all(round(40 * trial.held_out) == pytest.approx(40 * trial.held_out) for trial in tried)


def test_likely_points_of_pictures_are_in_the_box_and_no_two_alike() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 2))
    spec = lm.load_victim(net, input_shape=(1, 12, 12), low=0.0, high=1.0).spec
    points = torch.cat([kind(17, stream(0, "test")) for kind in likely_kinds(spec)])
    assert points.shape == (51, 144)
    assert float(points.min()) >= 0.0
    assert float(points.max()) <= 1.0
    assert len(points.unique(dim=0)) == 51


def test_kinds_of_points_that_are_all_of_one_class_are_asked_less() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 2)).double()
    with torch.no_grad():  # bright ones are of the second class: half of all noise is, and no picture drawn on black
        net[1].weight.copy_(torch.tensor([[0.0], [1.0]]).expand(2, 144))
        net[1].bias.copy_(torch.tensor([72.0, 0.0]))
    victim = lm.load_victim(net, input_shape=(1, 12, 12), low=0.0, high=1.0, outputs="logits")
    asker = Asker(lm.Oracle(victim, "logits", 900))
    fresh = ask_fresh(asker, stream(0, "test"))
    assert len(fresh) == 900
    noise = (fresh.x > 0).all(1) & (fresh.x < 1).all(1)
    assert int(noise.sum()) > 450
