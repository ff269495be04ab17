"""Attributions against closed forms, axioms, brute force and the shap package."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from torch import Tensor, nn

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.oracle.explanations.baseline import players
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

MAPS = ["gradxinput", "integrated:7", "occlusion", "shap:2", "lime:40"]


@pytest.fixture
def x() -> Tensor:
    return torch.rand(6, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.1


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3).double()


def network(shape: tuple[int, ...] = (4,)) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 9), nn.Tanh(), nn.Linear(9, 3)).double()


def victim(module: nn.Module, **facts) -> Victim:
    return load_victim(module, **{"input_shape": (4,), "low": 0.0, "high": 2.0, **facts})


def shown(of: Victim, view: str, x: Tensor) -> Tensor:
    return Oracle(of, view).query(x).explanation


@pytest.mark.parametrize("name", MAPS[:4])
def test_of_a_linear_model_every_method_says_weight_times_value(name: str, x: Tensor) -> None:
    layer = linear()
    expected = layer.weight.detach() * x[:, None]
    torch.testing.assert_close(shown(victim(layer), f"logits+{name}", x), expected)


def test_lime_of_a_linear_model_is_weight_times_value_but_for_its_ridge(x: Tensor) -> None:
    layer = linear()
    expected = layer.weight.detach() * x[:, None]
    torch.testing.assert_close(shown(victim(layer), "logits+lime:400", x), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("view", ["logits", "probs"])
def test_integrated_gradients_are_complete(view: str, x: Tensor) -> None:
    model, of = network(), victim(network())
    total = shown(of, f"{view}+integrated:400", x).sum(2)
    ends = [model(each).detach() for each in (x, torch.zeros_like(x))]
    scores = ends if view == "logits" else [each.softmax(1) for each in ends]
    torch.testing.assert_close(total, scores[0] - scores[1], rtol=1e-4, atol=1e-5)


def test_integrated_gradients_of_a_quadratic_have_their_closed_form(x: Tensor) -> None:
    class Squares(nn.Module):
        input_shape, low, high = (4,), 0.0, 2.0

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x.square().sum(1), (x[:, 0] * x[:, 1])], 1)

    got = shown(load_victim(Squares(), outputs="logits"), "logits+integrated:3,0.5", x).double()
    torch.testing.assert_close(got[:, 0], x.square() - 0.25, rtol=1e-5, atol=1e-5)
    product = torch.zeros_like(x)  # the derivative by one is the other, whose mean on the way is its middle
    product[:, 0], product[:, 1] = (x[:, 0] - 0.5) * (x[:, 1] + 0.5) / 2, (x[:, 1] - 0.5) * (x[:, 0] + 0.5) / 2
    torch.testing.assert_close(got[:, 1], product, rtol=1e-5, atol=1e-5)


def brute_force(model: nn.Module, x: Tensor) -> Tensor:
    """Shapley values against zero, by all coalitions."""
    n, values = x.shape[1], torch.zeros(len(x), 3, x.shape[1], dtype=x.dtype)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for coalition in combinations(others, size):
                weight = factorial(size) * factorial(n - size - 1) / factorial(n)
                without = torch.zeros_like(x)
                without[:, list(coalition)] = x[:, list(coalition)]
                with_it = without.clone()
                with_it[:, i] = x[:, i]
                values[:, :, i] += weight * (model(with_it) - model(without)).detach()
    return values


def test_sampled_shapley_values_are_efficient_and_near_those_of_all_coalitions(x: Tensor) -> None:
    model = network()
    got = shown(victim(model), "logits+shap:60", x)
    torch.testing.assert_close(got.sum(2), (model(x) - model(torch.zeros_like(x))).detach())
    torch.testing.assert_close(got, brute_force(model, x), rtol=0, atol=0.01)


def test_sampled_shapley_values_are_exact_where_only_pairs_interact(x: Tensor) -> None:
    class Pairs(nn.Module):
        input_shape, low, high = (4,), 0.0, 2.0

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x[:, 0] * x[:, 1] + x[:, 2], x[:, 0], -x[:, 2] * x[:, 0]], 1)

    got = shown(load_victim(Pairs(), outputs="logits"), "logits+shap:1", x).double()
    torch.testing.assert_close(got, brute_force(Pairs(), x), rtol=1e-5, atol=1e-5)
    assert (got[:, :, 3] == 0).all()  # a feature that is never used


@pytest.mark.parametrize("name", MAPS)
def test_a_feature_that_is_never_used_gets_nothing(name: str, x: Tensor) -> None:
    model = network()
    with torch.no_grad():
        model[1].weight[:, 2] = 0
    got = shown(victim(model), f"probs+{name}", x)[:, :, 2]
    assert got.abs().max() < (0.03 if name.startswith("lime") else 1e-12)


def trees(kind: str, classes: int):
    draws = np.random.default_rng(0)
    x = draws.normal(size=(300, 5))
    y = (x[:, 0] * x[:, 1] > 0).astype(int) + (classes > 2) * (x[:, 2] > 0.5)
    made = {"forest": RandomForestClassifier(12, max_depth=5, random_state=0)}
    made["boosted"] = GradientBoostingClassifier(n_estimators=15, random_state=0)
    made["histograms"] = HistGradientBoostingClassifier(max_iter=15, random_state=0)
    return made[kind].fit(x, y)


@pytest.mark.parametrize(("kind", "classes"), [("forest", 3), ("boosted", 2), ("histograms", 3), ("histograms", 2)])
def test_trees_are_explained_as_the_shap_package_does(kind: str, classes: int) -> None:
    package = pytest.importorskip("shap")
    model = trees(kind, classes)
    x = np.random.default_rng(1).normal(size=(20, 5)).clip(-3, 3)
    of = load_victim(model, input_shape=(5,), low=-3.0, high=3.0)
    oracle = Oracle(of, "probs+shap")
    got = oracle.query(torch.from_numpy(x)).explanation.numpy()
    explainer = package.TreeExplainer(model, np.zeros((1, 5)), feature_perturbation="interventional")
    expected = np.asarray(explainer.shap_values(x, check_additivity=False))
    expected = np.stack([-expected, expected], 1) if expected.ndim == 2 else expected.transpose(0, 2, 1)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert oracle.ledger.entry("attack").work == 20


def test_tree_values_are_efficient_and_of_the_label_shown_alone() -> None:
    model = trees("boosted", 2)
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).clamp(-3, 3)
    of = load_victim(model, input_shape=(5,), low=-3.0, high=3.0)
    whole, single = Oracle(of, "probs+shap").query(x), Oracle(of, "labels+shap").query(x)
    odds = torch.from_numpy(model.decision_function(x.numpy()) - model.decision_function(np.zeros((1, 5))))
    torch.testing.assert_close(whole.explanation[:, 1].sum(1), odds)
    torch.testing.assert_close(single.explanation, whole.explanation * single.shown[:, :, None])


def test_occlusion_takes_squares_of_pictures_away() -> None:
    layer = nn.Sequential(nn.Flatten(), nn.Linear(2 * 5 * 6, 2)).double()
    picture = torch.rand(3, 2, 5, 6, dtype=torch.float64)
    of = load_victim(layer, input_shape=(2, 5, 6), low=0.0, high=1.0)
    oracle = Oracle(of, "logits+occlusion:2")
    got = oracle.query(picture).explanation
    adds = (layer[1].weight.detach() * picture.flatten(1)[:, None]).reshape(3, 2, 2, 5, 6)
    corner = adds[:, :, :, 0:2, 4:6].sum((2, 3, 4))
    torch.testing.assert_close(got[:, :, 1, 1, 5], corner)
    torch.testing.assert_close(got[:, :, 0, 4, 0], adds[:, :, :, 4:5, 0:2].sum((2, 3, 4)))
    assert oracle.ledger.entry("attack").work == 3 * (1 + 9)


def test_a_one_hot_group_is_one_player() -> None:
    columns = {
        "a": {"low": 0, "high": 1},
        "red": {"kind": "onehot", "group": "colour"},
        "b": {"low": 0, "high": 1},
        "blue": {"kind": "onehot", "group": "colour"},
    }
    of = load_victim(linear().float(), columns=columns)
    assert players(of.spec).tolist() == [0, 1, 2, 1]


class Conv(nn.Module):
    input_shape, low, high = (1, 8, 8), 0.0, 1.0

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, stride=2, padding=1).double()
        self.head = nn.Linear(3, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).mean((2, 3)))


def test_grad_cam_of_averaged_channels_is_their_class_activation_map() -> None:
    torch.manual_seed(0)
    model, picture = Conv(), torch.rand(5, 1, 8, 8, dtype=torch.float64)
    got = shown(load_victim(model), "logits+gradcam", picture)
    cam = torch.einsum("kc,nchw->nkhw", model.head.weight, model.conv(picture)).relu() / 16
    large = nn.functional.interpolate(cam, (8, 8), mode="bilinear")[:, :, None]
    torch.testing.assert_close(got, large.detach())
    assert got.shape == (5, 2, 1, 8, 8)


def test_reasons_are_the_signs_of_the_largest_falls(x: Tensor) -> None:
    model = network()
    got = shown(victim(model), "probs+reasons:2", x)
    falls = shown(victim(model), "probs+occlusion", x)
    largest = falls.abs() >= falls.abs().topk(2, dim=2).values[:, :, -1:]
    assert torch.equal(got, falls.sign() * largest)


def test_a_counterfactual_of_a_linear_model_lies_close_behind_its_boundary() -> None:
    weight = torch.tensor([[1.0, -2.0]], dtype=torch.float64)

    def model(rows: np.ndarray) -> np.ndarray:
        return (rows @ weight.numpy().T > 0).astype(int)[:, 0]

    of = load_victim(model, input_shape=(2,), low=-1.0, high=1.0, classes=2, outputs="labels")
    rows = torch.rand(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    oracle = Oracle(of, "labels+counterfactual")
    answer = oracle.query(rows)
    found, nearest = answer.explanation.double(), (rows @ weight.T).abs()[:, 0] / 5**0.5
    assert (answer.columns["counterfactual_labels"] == 1 - answer.labels).all()
    assert (found.abs() <= 1).all()
    distance = (found - rows).norm(dim=1)
    assert (distance >= nearest - 1e-6).all()
    assert (distance / nearest).median() < 1.15
    assert (found @ weight.T).abs().max() < 0.02


def test_where_no_other_label_is_found_the_input_itself_is_shown() -> None:
    of = load_victim(lambda rows: np.zeros(len(rows), int), input_shape=(3,), low=0.0, high=1.0, classes=2)
    answer = Oracle(of, "labels+counterfactual").query(torch.rand(4, 3))
    assert torch.equal(answer.columns["counterfactual_labels"], answer.labels)


@pytest.mark.parametrize(
    ("view", "work"),
    [("gradxinput", 1), ("integrated:7", 7), ("occlusion", 5), ("shap:3", 2 + 6 * 3), ("lime:9", 9), ("reasons:2", 5)],
)
def test_the_ledger_knows_what_the_server_computed(view: str, work: int, x: Tensor) -> None:
    calls: list[int] = []
    model = network()
    model.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    of = victim(model)
    calls.clear()
    oracle = Oracle(of, f"probs+{view}")
    oracle.query(x)
    entry = oracle.ledger.entry("attack")
    assert (entry.queries, entry.explanations, entry.work) == (6, 6, 6 * work)
    assert sum(calls) == 6 * work + 6  # the answer itself


def test_a_counterfactual_costs_what_it_says() -> None:
    asked: list[int] = []

    def model(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return (rows[:, 0] > 0.5).astype(int)

    of = load_victim(model, input_shape=(3,), low=0.0, high=1.0, classes=2, outputs="labels")
    asked.clear()
    oracle = Oracle(of, "labels+counterfactual")
    oracle.query(torch.rand(4, 3))
    assert oracle.ledger.entry("attack").work == sum(asked) - 4


@pytest.mark.parametrize(
    ("view", "error", "sentence"),
    [
        ("probs+integrated:5,3", UsageError, "a baseline inside the box, from 0 to 2, got 3"),
        ("probs+integrated:0", UsageError, "a step or more"),
        ("probs+reasons:5", UsageError, "K at most 4, the features of an input, got 5"),
        ("probs+gradient/top:5", UsageError, "K at most 4 features, got 5"),
        ("probs+gradient/top:0", UsageError, "K from 1 on"),
        ("probs+gradient/round:18", UsageError, "D from 0 to 17"),
        ("probs+gradient/noise:0", UsageError, "S above 0"),
        ("probs+gradient/sing", UsageError, "unknown protection 'sing'; did you mean 'sign'"),
        ("probs+occlusion:2", UsageError, "at most 1 for inputs that are no pictures"),
        ("probs+lime:4", UsageError, "at least 5 samples"),
        ("probs+gradcam", NotApplicable, "needs pictures"),
        ("labels+counterfactual/sign", NotApplicable, "shows no map"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(view: str, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        Oracle(victim(network()), view)


def test_grad_cam_needs_a_convolution() -> None:
    with pytest.raises(NotApplicable, match="needs a convolution"):
        Oracle(victim(network((1, 4, 4)), input_shape=(1, 4, 4)), "probs+gradcam")


@pytest.mark.parametrize("name", ["gradxinput", "integrated", "gradcam", "gradient"])
def test_a_victim_without_gradients_is_skipped_with_the_reason(name: str) -> None:
    of = load_victim(lambda rows: rows.reshape(-1, 64)[:, :3], input_shape=(1, 8, 8), low=0.0, high=1.0)
    with pytest.raises(NotApplicable, match="needs a differentiable victim"):
        Oracle(of, f"probs+{name}")


@pytest.mark.parametrize("name", ["occlusion", "shap", "lime", "reasons", "counterfactual"])
def test_others_explain_any_function(name: str, x: Tensor) -> None:
    of = load_victim(
        lambda rows: np.stack([rows[:, 0] / 4, 1 - rows[:, 0] / 4], 1), input_shape=(4,), low=0.0, high=2.0
    )
    answer = Oracle(of, f"probs+{name}").query(x)
    assert answer.explanation.shape == ((6, 4) if name == "counterfactual" else (6, 2, 4))


def test_a_remote_victim_pays_for_its_explanations_on_the_evaluation_account(x: Tensor) -> None:
    of = victim(network())
    of.remote = True
    oracle = Oracle(of, "probs+occlusion", budget=6)
    oracle.query(x)
    assert oracle.ledger.entry("attack").queries == 6
    assert oracle.ledger.spent("evaluation") == 6 * 5
    with pytest.raises(NotApplicable, match="a remote victim does not give"):
        Oracle(of, "probs+gradient")


def test_protections_show_what_they_say(x: Tensor) -> None:
    of = victim(network())
    full = shown(of, "probs+gradient", x)
    assert torch.equal(shown(of, "probs+gradient/sign", x), full.sign())
    assert torch.equal(shown(of, "probs+gradient/abs", x), full.abs())
    assert torch.equal(shown(of, "probs+gradient/round:2", x), full.round(decimals=2))
    top = shown(of, "probs+gradient/top:1", x)
    assert ((top != 0).sum(2) == 1).all()
    assert torch.equal(top.abs().amax(2), full.abs().amax(2))
    many = torch.rand(3000, 4, dtype=torch.float64)
    difference = shown(of, "probs+gradient/noise:0.5", many) - shown(of, "probs+gradient", many)
    size = shown(of, "probs+gradient", many).square().mean(2, keepdim=True).sqrt()
    assert float((difference / size).std()) == pytest.approx(0.5, rel=0.03)
