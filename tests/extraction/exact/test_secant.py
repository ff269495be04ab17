"""Reconstruction from gradients: what it must handle, and what it must say when it cannot."""

import os

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import leakmeter as lm
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.extraction.exact.certificate import aligned


def error(copy: nn.Module, net: nn.Module, x: torch.Tensor, *, probs: bool = False) -> float:
    """The largest difference relative to the largest output."""
    with torch.no_grad():
        truth, found = net(x.to(next(net.parameters()))).double(), copy(x.double())
    if probs:
        truth, found = truth.softmax(1), found.softmax(1)
    return float((truth - found).abs().max() / truth.abs().max())


@pytest.mark.parametrize(
    ("h", "d", "outputs"),
    [(1, 1, 1), (1, 5, 2), (16, 32, 1), (64, 20, 1), (64, 20, 4), (5, 3, 1)],
    ids=["one unit", "one unit two outputs", "h<d", "h>d", "h>d several outputs", "few features"],
)
def test_biases_any_width_and_any_number_of_outputs(h: int, d: int, outputs: int, network, oracle) -> None:
    net = network(h, d, outputs)
    door = oracle(net, "logits+gradient", d)
    copy = lm.extract("exact", door)
    findings = copy.findings
    assert findings.units == h
    assert findings.complete
    assert findings.certificate.exact
    assert error(copy.substitute, net, torch.randn(500, d)) < 1e-9


def test_queries_and_rounds_stay_near_the_limit(network, oracle) -> None:
    one, ten = oracle(network(200, 100), "logits+gradient", 100), oracle(network(200, 100, 10), "logits+gradient", 100)
    rounds = lm.extract("exact", one).notes["search"]["rounds"]
    lm.extract("exact", ten)
    assert one.ledger.spent() < 3.2 * 200
    assert ten.ledger.spent() < 1.6 * 200
    assert rounds <= 60


def test_the_victims_own_units_come_back_up_to_order_and_scale(network, oracle) -> None:
    net = network(24, 30, 3)
    copy = lm.extract("exact", oracle(net, "logits+gradient", 30)).substitute
    match = aligned(copy.hidden, net[0], tolerance=1e-12)
    assert sorted(match.tolist()) == list(range(24))
    assert copy.skip is None
    scale = (copy.hidden.weight[match] * net[0].weight).sum(1)
    assert (scale > 0).all()
    assert torch.allclose(copy.output.weight[:, match] * scale, net[2].weight, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("box", [False, True])
def test_probabilities_tell_all_but_one_number_a_row(classes: int, box: bool, network, oracle) -> None:
    net = network(20, 12, classes)
    copy = lm.extract("exact", oracle(net, "probs+gradient", 12, box=box))
    x = torch.rand(500, 12)
    assert copy.findings.certificate.exact
    assert error(copy.substitute, net, x, probs=True) < 1e-8
    truth = net(x.double()).detach()
    assert torch.allclose(copy.substitute(x.double()), truth - truth.mean(1, keepdim=True), atol=1e-8)


def test_inside_a_box_every_unit_that_matters_there_is_found(network, oracle) -> None:
    net = network(60, 25, 2)
    copy = lm.extract("exact", oracle(net, "logits+gradient", 25, box=True))
    x = torch.rand(5000, 25)
    switching = (net[0](x.double()) > 0).double().mean(0)
    assert copy.findings.units >= int(((switching > 0) & (switching < 1)).sum())
    assert error(copy.substitute, net, x) < 1e-9


def test_boxes_may_differ_by_feature_and_be_half_open(network) -> None:
    net = network(20, 4, 2)
    low, high = torch.tensor([-3.0, 0.0, 10.0, -1.0]), torch.tensor([3.0, 255.0, 11.0, 1.0])
    victim = lm.load_victim(net, input_shape=(4,), low=low, high=high, outputs="logits")
    copy = lm.extract("exact", lm.Oracle(victim, "logits+gradient"))
    assert error(copy.substitute, net, low + (high - low) * torch.rand(500, 4)) < 1e-9
    half = lm.load_victim(net, input_shape=(4,), low=0.0, high=None, outputs="logits")
    copy = lm.extract("exact", lm.Oracle(half, "logits+gradient"))
    assert error(copy.substitute, net, torch.randn(500, 4).abs()) < 1e-9


def test_images_keep_their_shape(network) -> None:
    net = nn.Sequential(nn.Flatten(), network(10, 12, 3))
    victim = lm.load_victim(net, input_shape=(3, 2, 2), low=0.0, high=1.0, outputs="logits")
    copy = lm.extract("exact", lm.Oracle(victim, "logits+gradient")).substitute
    assert error(copy, net, torch.rand(100, 3, 2, 2)) < 1e-9


def test_dead_duplicate_opposite_and_parallel_units(network, oracle) -> None:
    net = network(12, 10, 2)
    with torch.no_grad():
        net[0].weight[0] = 0
        net[0].weight[2], net[0].bias[2] = net[0].weight[1], net[0].bias[1]
        net[0].weight[4], net[0].bias[4] = -3 * net[0].weight[3], -3 * net[0].bias[3]
        net[0].weight[6] = net[0].weight[5]
        net[2].weight[:, 7] = 0
    copy = lm.extract("exact", oracle(net, "logits+gradient", 10))
    assert copy.findings.units == 12 - 4
    assert error(copy.substitute, net, torch.randn(500, 10)) < 1e-9


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("budget", [1, 2, 7, 30, 60])
def test_a_budget_is_kept_and_its_end_is_told(budget: int, outputs: int, network, oracle) -> None:
    net = network(64, 20, outputs)
    door = oracle(net, "logits+gradient", 20, budget=budget)
    findings = lm.extract("exact", door).findings
    assert door.ledger.spent() <= budget
    assert not findings.complete
    assert "budget" in findings.missing
    assert not findings.certificate.exact


@pytest.mark.parametrize("view", ["logits+gradient", "probs+gradient"])
def test_linear_and_softmax_regression_take_one_query(view: str, oracle) -> None:
    net = nn.Linear(30, 4).double()
    door = oracle(net, view, 30, budget=1)
    copy = lm.extract("exact", door).substitute
    assert door.ledger.spent() == 1
    assert error(copy, net, torch.randn(200, 30), probs=view.startswith("probs")) < 1e-12


@pytest.mark.parametrize("outputs", [1, 10])
@pytest.mark.parametrize("box", [False, True])
def test_float32_victims(outputs: int, box: bool, network, oracle) -> None:
    net = network(64, 200, outputs, dtype=torch.float32)
    door = oracle(net, "logits+gradient", 200, box=box)
    copy = lm.extract("exact", door, patience=500 if box else 20)
    assert door.ledger.spent() <= 40 * 64
    # a rare corner of the box may hold a unit no probe reached: then the certificate says so
    assert copy.findings.complete or (box and "corners" in str(copy.findings.missing))
    x = torch.rand(2000, 200) if box else torch.randn(2000, 200)
    with torch.no_grad():
        truth, found = net(x).double(), copy.substitute(x.double())
    off = (truth - found).abs().amax(1) / truth.abs().max()
    assert (off < 1e-4).double().mean() >= 0.998


def test_a_trained_float32_classifier_seen_through_probabilities() -> None:
    from sklearn.datasets import load_digits

    from leakmeter.training.loop import Recipe, fit

    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    fit(
        net,
        (x, y),
        lambda model, batch, _: F.cross_entropy(model(batch[0]), batch[1]),
        Recipe(epochs=40, lr=1e-2),
        seed=0,
    )
    victim = lm.load_victim(net, input_shape=(64,), low=0.0, high=1.0, outputs="logits")
    door = lm.Oracle(victim, "probs+gradient", 40 * 32)
    copy = lm.extract("exact", door, patience=400).substitute
    assert (copy(x).argmax(1) == net(x).argmax(1)).all()
    assert error(copy, net, x, probs=True) < 1e-3


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)),
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 2)),
    ],
    ids=["smooth", "smooth above"],
)
def test_what_is_no_such_network_is_declared(net: nn.Module, oracle) -> None:
    torch.manual_seed(0)
    for layer in net:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    findings = lm.extract("exact", oracle(net.double(), "logits+gradient", 4), max_lines=30).findings
    assert not findings.complete
    assert not findings.certificate.exact


def test_the_same_seed_gives_the_same_copy(network, oracle) -> None:
    net, x = network(20, 10, 2), torch.randn(50, 10, dtype=torch.float64)
    one, two, other = (lm.extract("exact", oracle(net, "logits+gradient", 10), seed=s).substitute for s in (3, 3, 4))
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), other(x))


def test_views_that_hide_too_much_are_refused(network, oracle) -> None:
    net = network(5, 4, 3)
    for view in ("logits", "labels", "logits+smoothgrad"):
        with pytest.raises(UsageError, match="gradient"):
            lm.extract("exact", oracle(net, view, 4))
    for view in ("probs:3+gradient", "top:2+gradient"):
        with pytest.raises(UsageError, match="unrounded"):
            lm.extract("exact", oracle(net, view, 4))


def test_probabilities_that_are_zero_everywhere_are_declared(network, oracle) -> None:
    net = network(5, 4, 3, dtype=torch.float32)
    with torch.no_grad():
        net[2].bias[0] = 1e4
    with pytest.raises(Inconclusive, match="logits view"):
        lm.extract("exact", oracle(net, "probs+gradient", 4))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_at_full_size_three_queries_a_unit_and_sixty_rounds_are_enough(seed: int, network, oracle) -> None:
    net = network(1024, 784, seed=seed)
    door = oracle(net, "logits+gradient", 784)
    copy = lm.extract("exact", door, seed=seed)
    assert door.ledger.spent() <= 3 * 1024
    assert copy.notes["search"]["rounds"] <= 60
    assert error(copy.substitute, net, torch.randn(1000, 784)) < 1e-8


@pytest.mark.slow
@pytest.mark.skipif("LEAKMETER_DATA" not in os.environ, reason="needs MNIST in $LEAKMETER_DATA")
def test_mnist_through_probabilities_agrees_on_all_test_images() -> None:
    from leakmeter.data.catalogue import load
    from leakmeter.training.loop import Recipe, fit

    train, test = load("mnist", "train"), load("mnist", "test")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    loss = lambda model, batch, _: F.cross_entropy(model(batch[0]), batch[1])  # noqa: E731
    fit(net, (train.x, train.y), loss, Recipe(epochs=5), seed=0)
    victim = lm.load_victim(net, input_shape=(1, 28, 28), low=0.0, high=1.0, outputs="logits")
    copy = lm.extract("exact", lm.Oracle(victim, "probs+gradient", 40 * 128)).substitute
    assert lm.score(copy, victim, test).fidelity >= 0.999


@pytest.mark.parametrize(("view", "box"), [("logits", False), ("logits", True), ("probs", True)])
def test_gradient_times_input_tells_as_much_as_the_gradient(view: str, box: bool, network, oracle) -> None:
    net = network(20, 12, 3)
    plain, times = oracle(net, f"{view}+gradient", 12, box=box), oracle(net, f"{view}+gradxinput", 12, box=box)
    lm.extract("exact", plain)
    copy = lm.extract("exact", times)
    assert copy.findings.certificate.exact
    assert error(copy.substitute, net, torch.rand(500, 12), probs=view == "probs") < 1e-8
    assert times.ledger.spent() <= 1.05 * plain.ledger.spent()


@pytest.mark.parametrize("steps", [1, 10])
def test_integrated_gradients_are_turned_back_along_rays_from_the_baseline(steps: int, network, oracle) -> None:
    net = network(20, 12, 3)
    plain, averaged = oracle(net, "logits+gradient", 12), oracle(net, f"logits+integrated:{steps}", 12)
    lm.extract("exact", plain)
    copy = lm.extract("exact", averaged)
    assert copy.findings.complete
    assert error(copy.substitute, net, torch.randn(500, 12)) < 1e-6
    assert averaged.ledger.spent() <= 4 * plain.ledger.spent()


def test_what_integrated_gradients_do_not_tell_is_declared(network, without_biases, oracle) -> None:
    net = without_biases(network(6, 5, 2))  # every unit switches at the baseline itself
    copy = lm.extract("exact", oracle(net, "logits+integrated:10", 5, budget=400))
    assert not copy.findings.exact or error(copy.substitute, net, torch.randn(500, 5)) < 1e-6
    with pytest.raises(UsageError, match="or logits\\+integrated"):
        lm.extract("exact", oracle(network(6, 5, 2), "probs+integrated:10", 5))
