import copy

import pytest
import torch
from torch import nn

from leakmeter.extraction.base import AttackJob, extract
from leakmeter.extraction.dfme import Dfme, forward_difference, kl_rows, l1_rows
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.studies.dfme.gradients import gradient_norms, softmax_jacobian
from leakmeter.victims.load import load_victim

SMALL = {"batch": 8, "width": 4, "student": "linear"}


def make_oracle(budget: int | None, view: str = "probs") -> Oracle:
    torch.manual_seed(0)
    victim = load_victim(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), input_shape=(1, 8, 8), low=-1.0, high=1.0, classes=3,
        outputs="logits",
    )  # fmt: skip
    return Oracle(victim, view=view, budget=budget)


def test_the_estimate_points_along_the_true_gradient_of_each_row() -> None:
    x = torch.randn(4, 1, 5, 6, generator=stream(0), dtype=torch.float64)
    scale = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64).reshape(4, 1, 1, 1).repeat(4001, 1, 1, 1)

    def function(points: torch.Tensor) -> torch.Tensor:
        return (scale * points.sin()).flatten(1).sum(1)

    estimate = forward_difference(function, x, 4000, 1e-5, stream(1))
    truth = scale[:4] * x.cos()
    for row in range(4):
        assert torch.cosine_similarity(estimate[row].flatten(), truth[row].flatten(), dim=0) > 0.98
        assert estimate[row].norm() == pytest.approx(truth[row].norm().item(), rel=0.15)


def test_one_direction_is_unbiased_on_a_linear_function() -> None:
    slope = torch.tensor([1.0, -3.0, 2.0])
    draws = stream(0)
    estimates = [forward_difference(lambda p: p @ slope, torch.zeros(64, 3), 1, 0.1, draws) for _ in range(200)]
    assert torch.allclose(torch.cat(estimates).mean(0), slope, atol=0.2)


def test_all_evaluations_are_one_call() -> None:
    calls = []

    def function(points: torch.Tensor) -> torch.Tensor:
        calls.append(len(points))
        return points.sum(1)

    forward_difference(function, torch.zeros(5, 7), 3, 0.1, stream(0))
    assert calls == [20]


def test_row_losses_are_the_papers() -> None:
    student, victim = torch.tensor([[0.5, -0.5], [2.0, 1.0]]), torch.tensor([[1.5, -1.5], [2.0, 1.0]])
    assert torch.allclose(l1_rows(student, victim), torch.tensor([1.0, 0.0]))
    p, q = victim.softmax(1), student.softmax(1)
    assert torch.allclose(kl_rows(student, victim), (p * (p / q).log()).sum(1))


@pytest.mark.parametrize("view", ["probs", "probs:2", "top:2", "labels", "logits"])
def test_it_spends_whole_turns_within_the_budget_in_every_view(view: str) -> None:
    attack = Dfme(**SMALL)
    oracle = make_oracle(3 * attack.turn + 5, view)
    result = extract("dfme", oracle, stops=[attack.turn], **SMALL)
    assert oracle.ledger.spent() == 3 * attack.turn
    assert [point.queries for point in result.curve] == [attack.turn, 3 * attack.turn]
    assert result.queries is not None
    assert 0 <= result.notes["answers"][0]["class_entropy"] <= 1
    assert 0 <= result.notes["answers"][0]["foreseen"] <= 1


def test_the_student_comes_closer_to_the_victim() -> None:
    test = (torch.rand(500, 1, 8, 8, generator=stream(5)) * 2 - 1, torch.zeros(500, dtype=torch.long))
    options = {"batch": 32, "width": 4, "student": "linear", "student_lr": 0.5}
    curve = extract("dfme", make_oracle(224 * 25), test=test, stops=[224], seed=1, **options).curve
    assert curve[-1].score.fidelity > curve[0].score.fidelity
    assert curve[-1].score.fidelity > 0.8


def test_the_same_seed_gives_the_same_copy() -> None:
    first, second = (extract("dfme", make_oracle(200), seed=4, **SMALL).substitute for _ in range(2))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


class Viewing(nn.Module):
    """Convolves, then reshapes with `view`, which fails on channels that lie side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.dense = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(self.conv(x).view(len(x), -1))


@pytest.mark.parametrize(
    ("name", "options"),
    [("dfme", {"batch": 8}), ("codfe", {"noise": 16, "batch": 8, "student_iterations": 1, "generator_iterations": 1})],
)
def test_victim_and_student_may_reshape_with_view(name: str, options: dict[str, int]) -> None:
    victim = load_victim(Viewing(), input_shape=(3, 8, 8), low=0.0, high=1.0, classes=3, outputs="logits")
    result = extract(name, Oracle(victim, budget=112), width=4, student=f"{__name__}:Viewing", **options)
    assert isinstance(result.substitute, Viewing)
    assert result.ledger.spent() > 0


def test_a_turn_asks_once_for_each_gradient_and_once_for_all_student_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = Dfme(generator_steps=2, directions=3, student_steps=4, replays=2, **SMALL)
    oracle, sizes = make_oracle(attack.turn), []
    query = oracle.query
    monkeypatch.setattr(oracle, "query", lambda x: sizes.append(len(x)) or query(x))
    attack.run(oracle, AttackJob(0, torch.device("cpu"), stops=(attack.turn,)))
    assert sizes == [8 * 4, 8 * 4, 8 * 4]


def test_student_batches_are_normalised_one_by_one_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = Dfme(generator_steps=0, student_steps=3, **SMALL)
    oracle, asked = make_oracle(attack.turn), []
    query = oracle.query
    monkeypatch.setattr(oracle, "query", lambda x: asked.append(x) or query(x))
    attack.run(oracle, AttackJob(0, torch.device("cpu"), stops=(attack.turn,)))
    for batch in asked[0].atanh().split(attack.batch):  # in [-1, 1] an image is the tanh of what the last norm gives
        assert batch.mean() == pytest.approx(0, abs=1e-4)


class TestLemmas:
    """DFME appendix D.1, on softmax Jacobians checked against automatic differentiation."""

    logits = torch.randn(30, 7, generator=stream(2), dtype=torch.float64) * 4
    jacobian = softmax_jacobian(logits.softmax(1))

    def test_the_jacobian_is_that_of_softmax(self) -> None:
        for row, expected in zip(self.logits, self.jacobian, strict=True):
            found = torch.autograd.functional.jacobian(lambda s: s.softmax(0), row)
            assert torch.allclose(found, expected, atol=1e-12)

    def test_lemma_1_eigenvalues_lie_between_0_and_1(self) -> None:
        values = torch.linalg.eigvalsh(self.jacobian)
        assert values.min() > -1e-12
        assert values.max() < 1
        assert torch.allclose(values.sum(1), 1 - self.logits.softmax(1).square().sum(1))

    def test_lemma_2_no_vector_grows(self) -> None:
        z = torch.randn(30, 7, 50, generator=stream(3), dtype=torch.float64)
        assert ((self.jacobian @ z).norm(dim=1) <= z.norm(dim=1)).all()

    @pytest.mark.parametrize("distance", [1.0, 0.1, 0.001])
    def test_lemma_3_jacobians_converge_with_the_outputs(self, distance: float) -> None:
        noise = torch.randn(30, 7, generator=stream(4), dtype=torch.float64)
        student, victim = (self.logits + distance * noise).softmax(1), self.logits.softmax(1)
        gap = (softmax_jacobian(student) - self.jacobian).flatten(1).norm(dim=1)
        assert (gap <= 3 * (student - victim).norm(dim=1)).all()
        assert gap.max() < 3 * distance


def test_hypothesis_1_near_the_victim_the_kl_gradient_is_far_smaller() -> None:
    victim = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 5)).double()
    near = copy.deepcopy(victim)
    draws = stream(0)
    for parameter in near.parameters():
        parameter.data += 1e-3 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64)
    facts = gradient_norms(victim, near, torch.rand(50, 1, 4, 4, generator=draws, dtype=torch.float64))
    assert facts["gradient_kl"] < 0.05 * facts["gradient_l1"]
