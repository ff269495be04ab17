"""`certify` and `predict` on models whose smoothed prediction is known exactly."""

from __future__ import annotations

import inspect
from itertools import pairwise

import pytest
import torch
from scipy.special import ndtr, ndtri
from scipy.stats import binom, binomtest
from torch import nn

import leakmeter as lm
from leakmeter.certificates import predict
from leakmeter.certificates.confidence import samples_needed
from leakmeter.certificates.sampling import Sampling, collect
from leakmeter.certificates.sequential import samples_to_reach
from leakmeter.certificates.smoothing import BOUNDS, Asked, Certificate, probability_for
from leakmeter.errors import UsageError, VictimError


class Halfspace(nn.Module):
    """Class 1 where w·x + b > 0: P(class 1 under noise) = Φ((w·x + b) / (σ‖w‖)), and the boundary is that near."""

    def __init__(self, dimension: int = 8, classes: int = 2) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.w = nn.Parameter(torch.randn(dimension, generator=generator))
        self.b, self.classes = 0.2, classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = x.flatten(1) @ self.w + self.b
        return torch.stack([-score, score, *[torch.full_like(score, -1e9)] * (self.classes - 2)], 1)

    def distance(self, x: torch.Tensor) -> torch.Tensor:
        return ((x.flatten(1) @ self.w + self.b) / self.w.norm()).detach().double()


@pytest.fixture
def model() -> Halfspace:
    return Halfspace()


def inputs(n: int, shape: tuple[int, ...] = (8,), seed: int = 1) -> torch.Tensor:
    return 0.5 * torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bound", ["tight", "renyi", "pixeldp"])
@pytest.mark.parametrize("options", [{"n": 500}, {"n": 2000, "target_radius": 0.1}, {"n": 500, "runner_up": "classes"}])
def test_certificates_are_wrong_at_most_alpha_often(model, bound, options):
    x, alpha = inputs(600), 0.05
    distance = model.distance(x)
    certificate = lm.certify(model, x, sigma=0.5, alpha=alpha, bound=bound, n0=20, **options)
    certified = certificate.labels >= 0
    wrong = certified & ((certificate.labels != (distance > 0)) | (certificate.radii > distance.abs()))
    assert int(wrong.sum()) <= binom.ppf(0.999, len(x), alpha)
    assert certified.float().mean() > 0.6
    assert (certificate.radii[~certified] == 0).all()


def test_with_many_votes_the_tight_radius_nears_the_distance(model):
    x = inputs(5)
    radii = lm.certify(model, x, sigma=0.5, n=50_000, alpha=0.001).radii
    torch.testing.assert_close(radii, model.distance(x).abs().clamp(max=2), atol=0.05, rtol=0)


@pytest.mark.parametrize("options", [{}, {"target_radius": 0.2}])
def test_results_do_not_depend_on_batching(options):
    x = inputs(30, (1, 4, 2))
    a, b, c = (
        lm.certify(Halfspace(), rows, sigma=0.5, n=430, n0=70, seed=3, batch=batch, **options)
        for rows, batch in ((x, 50), (x, 1000), (x[:11], 333))
    )
    assert torch.equal(a.counts, b.counts)
    assert torch.equal(a.selection, b.selection)
    assert torch.equal(a.counts[:11], c.counts)


def test_votes_are_all_there_and_depend_on_the_seed_and_the_place(model):
    x = inputs(1).repeat(4, 1)
    certificate = lm.certify(model, x, sigma=0.5, n=437, n0=63, seed=3)
    assert certificate.counts.sum(1).tolist() == [437] * 4
    assert certificate.selection.sum(1).tolist() == [63] * 4
    assert certificate.samples.tolist() == [500] * 4
    assert len({tuple(row) for row in certificate.counts.tolist()}) > 1
    assert not torch.equal(certificate.counts, lm.certify(model, x, sigma=0.5, n=437, n0=63, seed=4).counts)


def test_noise_is_gaussian_and_fresh_for_every_sample():
    seen = []

    def spy(batch: torch.Tensor) -> torch.Tensor:
        seen.append(batch.clone())
        return torch.zeros(len(batch), 2)

    lm.certify(spy, torch.full((3, 1, 4, 4), 7.0), sigma=0.5, n=2000)
    drawn = torch.cat(seen[1:])  # the first call only counts the classes
    assert drawn.mean().item() == pytest.approx(7, abs=0.01)
    assert drawn.std().item() == pytest.approx(0.5, abs=0.005)
    assert len(drawn.flatten(1).unique(dim=0)) == len(drawn) == 3 * 2100


def test_recompute_needs_no_model_and_equals_a_fresh_certificate():
    model, x = Halfspace(classes=4), inputs(40)
    made = {
        (bound, alpha, how): lm.certify(model, x, sigma=0.5, n=300, alpha=alpha, bound=bound, runner_up=how)
        for bound, alpha, how in [("tight", 0.001, "rest"), ("renyi", 0.01, "rest"), ("pixeldp", 0.05, "classes")]
    }
    first = made["tight", 0.001, "rest"]
    for (bound, alpha, how), fresh in made.items():
        again = first.recompute(bound=bound, alpha=alpha, runner_up=how)
        assert torch.equal(again.radii, fresh.radii)
        assert torch.equal(again.labels, fresh.labels)
    assert (first.recompute(bound="pixeldp").radii <= first.recompute(bound="renyi").radii).all()
    assert (first.recompute(bound="renyi").radii <= first.radii).all()


def test_sequential_decides_as_the_truth_says_with_far_fewer_votes(model):
    x, radius = inputs(100), 0.3
    certificate = lm.certify(model, x, sigma=0.5, n=20_000, target_radius=radius)
    clear = (model.distance(x).abs() - radius).abs() > 0.05
    reached = certificate.radii >= radius
    assert torch.equal(reached[clear], (model.distance(x).abs() >= radius)[clear])
    assert certificate.samples[clear].double().mean() < 20_000 / 10
    stopped = certificate.counts.sum(1) < 20_000
    top = certificate.counts.gather(1, certificate.selection.argmax(1, keepdim=True))[:, 0] / certificate.counts.sum(1)
    assert torch.equal(reached[stopped], top[stopped] > probability_for(radius, 0.5, "tight"))


@pytest.mark.parametrize("bound", ["tight", "renyi", "pixeldp"])
def test_probability_for_inverts_the_bound(bound):
    radius = BOUNDS[bound]
    p = probability_for(0.25, 0.5, bound)
    assert radius(p, 1 - p, 0.5) >= 0.25
    assert radius(p - 1e-9, 1 - p + 1e-9, 0.5) < 0.25
    assert bound != "tight" or p == pytest.approx(ndtr(0.5), rel=1e-10)


def test_summaries():
    model, x = Halfspace(), inputs(100)
    y = (model.distance(x) > 0).long()
    y[:10] = 1 - y[:10]
    certificate = lm.certify(model, x, sigma=0.5, n=1000)
    right = certificate.labels == y
    assert certificate.accuracy(y, 0.2) == pytest.approx((right & (certificate.radii >= 0.2)).double().mean().item())
    assert certificate.average_radius(y) == pytest.approx((certificate.radii * right).mean().item())
    assert certificate.sure_accuracy(y, 0.2) < certificate.accuracy(y, 0.2)
    assert certificate.accuracy(y, 0.0) <= 0.9
    shares = certificate.counts[torch.arange(100), y] / 1000
    assert certificate.p_a(y)["50%"] == pytest.approx(shares.quantile(0.5).item())
    assert list(certificate.p_a(y).values()) == sorted(certificate.p_a(y).values())


def test_predict_abstains_or_is_right(model):
    x, alpha = inputs(400), 0.05
    labels = predict(model, x, sigma=0.5, n=100, alpha=alpha)
    wrong = (labels >= 0) & (labels != (model.distance(x) > 0))
    assert int(wrong.sum()) <= binom.ppf(0.999, len(x), alpha)
    assert 0 < (labels == -1).float().mean() < 0.5


class Dropping(Halfspace):
    """Answers at random while training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.training
        return super().forward(x)


def test_the_model_is_used_in_evaluation_mode_and_put_back():
    model = Dropping().train()
    lm.certify(model, inputs(2), sigma=0.5, n=100)
    assert model.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 9, "alpha": 0.001}, "n >= 10"),
        ({"n": 60, "target_radius": 1.0}, "expected n >= "),
        ({"sigma": 0.0}, "sigma"),
        ({"alpha": 1.5}, "alpha"),
        ({"bound": "tigth"}, "did you mean 'tight'"),
        ({"n0": 0}, "n0 >= 1"),
        ({"batch": 10}, "batch"),
        ({"bound": "pixeldp", "target_radius": 0.4}, "at most 0.285"),
        ({"target_radius": 0.1, "runner_up": "classes"}, "runner_up"),
    ],
)
def test_says_what_cannot_work(model, options, message):
    with pytest.raises(UsageError, match=message):
        lm.certify(model, inputs(2), **({"sigma": 0.5, "n": 1000} | options))


def test_says_when_predict_cannot_settle_anything(model):
    with pytest.raises(UsageError, match="n >= 11"):
        predict(model, inputs(2), sigma=0.5, n=10, alpha=0.001)


def test_no_input_and_no_scores_are_errors(model):
    with pytest.raises(UsageError, match="at least one input"):
        lm.certify(model, inputs(0), sigma=0.5, n=100)
    with pytest.raises(VictimError, match="scores"):
        lm.certify(lambda x: x.sum(1), inputs(2), sigma=0.5, n=100)
    with pytest.raises(VictimError, match="NaN"):
        lm.certify(lambda x: x * float("nan"), inputs(2), sigma=0.5, n=100)


def test_fewer_certified_at_a_stricter_confidence(model):
    certificate = lm.certify(model, inputs(50), sigma=0.5, n=200)
    radii = [certificate.recompute(alpha=alpha).radii for alpha in (0.1, 0.01, 0.001)]
    assert all((a >= b).all() for a, b in pairwise(radii))


def test_a_network_that_reshapes_with_view_is_certified():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.dense = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 2)

        def forward(self, x):
            return self.dense(self.conv(x).view(len(x), -1))

    assert len(lm.certify(Viewing(), torch.rand(2, 3, 8, 8), sigma=0.1, n=100).labels) == 2


def test_the_class_is_chosen_without_a_look_at_the_votes_that_certify_it():
    """On the boundary every certificate is wrong: choosing by the same votes would make twice as many."""
    alpha, x = 0.05, torch.zeros(4000, 2)

    def coin(batch: torch.Tensor) -> torch.Tensor:
        return torch.stack([batch[:, 0], -batch[:, 0]], 1)

    certificate = lm.certify(coin, x, sigma=0.5, n=101, n0=11, alpha=alpha)
    wrong = int((certificate.labels >= 0).sum())
    assert wrong <= binom.ppf(0.9999, len(x), alpha)
    chosen = certificate.selection.argmax(1)[certificate.labels >= 0]
    assert torch.equal(chosen, certificate.labels[certificate.labels >= 0])


def test_what_is_not_said_is_what_is_promised(model):
    """The defaults are part of the statement: alpha is the probability that a reader will quote."""
    x = inputs(3)
    short, full = (
        lm.certify(model, x, sigma=0.5, **said)
        for said in ({}, {"n": 1000, "alpha": 0.001, "bound": "tight", "n0": 100, "runner_up": "rest", "seed": 0})
    )
    assert torch.equal(short.counts, full.counts)
    assert torch.equal(short.selection, full.selection)
    assert torch.equal(short.radii, full.radii)
    assert (short.alpha, short.bound, short.runner_up, short.target_radius) == (0.001, "tight", "rest", None)
    said = predict(model, x, sigma=0.5, n=100, alpha=0.001, seed=0)
    assert torch.equal(predict(model, x, sigma=0.5), said)
    y = short.labels
    assert short.sure_accuracy(y, 0.0) == short.sure_accuracy(y, 0.0, rho=0.001)
    for function in (lm.certify, Asked, predict):
        words = inspect.signature(function).parameters
        assert (words["batch"].default, words["seed"].default, words["alpha"].default) == (250, 0, 0.001)
    assert inspect.signature(Certificate.sure_accuracy).parameters["rho"].default == 0.001
    assert all(
        inspect.signature(lm.certify).parameters[name].default == word.default
        for name, word in inspect.signature(Asked).parameters.items()
    )
    assert inspect.signature(predict).parameters["n"].default == 100


def test_recompute_keeps_what_it_is_not_told(model):
    options = {"alpha": 0.01, "bound": "renyi", "runner_up": "classes"}
    made = lm.certify(model, inputs(20), sigma=0.5, n=200, **options)
    again = made.recompute()
    assert torch.equal(made.radii, again.radii)
    assert {name: getattr(again, name) for name in options} == options
    stopped = lm.certify(model, inputs(20), sigma=0.5, n=2000, target_radius=0.1)
    assert torch.equal(stopped.recompute().radii, stopped.radii)
    assert stopped.recompute().target_radius == 0.1


def test_a_radius_is_reached_where_it_is_just_reached(model):
    certificate = lm.certify(model, inputs(50), sigma=0.5, n=200)
    radius = float(certificate.radii.median())
    assert radius > 0
    y = certificate.labels.clamp_min(0)
    assert certificate.accuracy(y, radius) == float((certificate.radii >= radius).double().mean())
    assert certificate.accuracy(y, radius) > certificate.accuracy(y, radius * (1 + 1e-9))
    assert certificate.average_radius(1 - y) == 0


@pytest.mark.parametrize("p", [0.5, 0.62, 0.7])
def test_predict_is_a_two_sided_binomial_test_of_the_two_foremost(p):
    """Against scipy's own test, also where alpha is exactly what the votes give."""
    line = float(ndtri(p))

    def three(batch: torch.Tensor) -> torch.Tensor:
        z = batch[:, 0]
        return nn.functional.one_hot(torch.where(z < line, 0, torch.where(z < line + 1.5, 1, 2)).long(), 3).float()

    x, n = torch.zeros(40, 1), 60
    votes = collect(three, x, Sampling(1.0, n, seed=5, batch=250)).counts
    top = votes.topk(2, dim=1)
    values = [
        binomtest(int(first), int(both)).pvalue for first, both in zip(top.values[:, 0], top.values.sum(1), strict=True)
    ]
    for alpha in (0.05, sorted(values)[20] * (1 + 1e-12), sorted(values)[20] * (1 - 1e-9)):
        found = predict(three, x, sigma=1.0, n=n, alpha=alpha, seed=5)
        expected = [int(c) if v <= alpha else -1 for c, v in zip(top.indices[:, 0], values, strict=True)]
        assert found.tolist() == expected


@pytest.mark.parametrize("bound", ["tight", "renyi", "pixeldp"])
def test_a_target_is_possible_up_to_the_largest_radius_there_is(bound):
    high = 1 - 2.0**-53
    best = BOUNDS[bound](high, 1 - high, 0.5)
    p = probability_for(best, 0.5, bound)
    assert BOUNDS[bound](p, 1 - p, 0.5) >= best
    for radius in (best * (1 + 1e-6), 0.0, -1.0):
        with pytest.raises(UsageError, match="expected a target radius above 0 and at most"):
            probability_for(radius, 0.5, bound)
    for radius in (1e-6, 0.2 * best):
        p = probability_for(radius, 0.5, bound)
        assert BOUNDS[bound](p, 1 - p, 0.5) >= radius > BOUNDS[bound](p - 1e-12, 1 - p + 1e-12, 0.5)


def test_the_fewest_votes_that_can_do_are_enough_and_one_less_is_refused(model):
    x = inputs(2)
    needed = samples_needed(0.001)
    assert lm.certify(model, x, sigma=0.5, n=needed, n0=1).selection.sum(1).tolist() == [1, 1]
    with pytest.raises(UsageError, match=f"expected n >= {needed}"):
        lm.certify(model, x, sigma=0.5, n=needed - 1)
    assert predict(model, x, sigma=0.5, n=samples_needed(0.0005), alpha=0.001).shape == (2,)
    to_reach = samples_to_reach(probability_for(0.4, 0.5, "tight") * (1 + 1e-12), 0.001)
    far = 10 * inputs(1)
    assert lm.certify(model, far, sigma=0.5, n=to_reach, target_radius=0.4).radii[0] >= 0.4
    with pytest.raises(UsageError, match=f"expected n >= {to_reach} to certify the radius 0.4"):
        lm.certify(model, far, sigma=0.5, n=to_reach - 1, target_radius=0.4)


def test_the_alpha_of_a_certificate_lies_between_0_and_1(model):
    for alpha in (0.0, 1.0, -0.1):
        with pytest.raises(UsageError, match="alpha between 0 and 1"):
            lm.certify(model, inputs(2), sigma=0.5, n=200, alpha=alpha)
