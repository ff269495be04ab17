"""The radii against the papers' formulas in 50 digits, and against each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from scipy.special import ndtr, ndtri

from leakmeter.certificates import (
    linf_radius,
    pixeldp_analytic_radius,
    pixeldp_radius,
    renyi_radius,
    tight_radius,
)
from leakmeter.certificates.tight import _unit
from leakmeter.errors import UsageError

BOUNDS = (tight_radius, renyi_radius, pixeldp_radius, pixeldp_analytic_radius)


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


def golden(f: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """The maximum near the best of 80 grid points: no assumption that there is one peak."""
    points = [low + (high - low) * i / 80 for i in range(81)]
    best = max(range(81), key=lambda i: f(points[i]))
    low, high = points[max(best - 1, 0)], points[min(best + 1, 80)]
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if f(left) >= f(right) else (left, high)
    return max(f(low), f(high))


def tight(p1: float, p2: float) -> mpf:
    quantile = lambda p: mp.sqrt(2) * mp.erfinv(2 * mpf(p) - 1)  # noqa: E731
    return (quantile(p1) - quantile(p2)) / 2


def renyi(p1: float, p2: float) -> mpf:
    p1, p2 = mpf(p1), mpf(p2)

    def squared(beta: mpf) -> mpf:  # beta = alpha - 1; the power mean of order 0 is the geometric one
        mean = ((p1**-beta + p2**-beta) / 2) ** (-1 / beta) if beta else mp.sqrt(p1 * p2)
        return -2 / (1 + beta) * mp.log(1 - p1 - p2 + 2 * mean)

    return mp.sqrt(golden(squared, mpf(0), mpf(2)))


def _delta(p1: mpf, p2: mpf, epsilon: mpf) -> mpf:
    return (p1 - mp.exp(2 * epsilon) * p2) / (1 + mp.exp(epsilon))


def pixeldp(p1: float, p2: float) -> mpf:
    p1, p2 = mpf(p1), mpf(p2)

    def radius(epsilon: mpf) -> mpf:
        delta = _delta(p1, p2, epsilon)
        return epsilon / mp.sqrt(2 * mp.log(mpf("1.25") / delta)) if delta > 0 else mpf(0)

    return golden(radius, mpf(0), min(mpf(1), mp.log(p1 / p2) / 2))


def gaussian_delta(epsilon: mpf, distance: mpf) -> mpf:
    """Balle and Wang (2018), theorem 8."""
    return mp.ncdf(distance / 2 - epsilon / distance) - mp.exp(epsilon) * mp.ncdf(-distance / 2 - epsilon / distance)


def pixeldp_analytic_at(p1: float, p2: float, epsilon: mpf) -> mpf:
    """The distance at which the noise needs exactly the delta that is left at this epsilon."""
    allowed, low, high = _delta(mpf(p1), mpf(p2), epsilon), mpf(0), mpf(50)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= allowed else (low, middle)
    return low


def pairs() -> list[tuple[float, float]]:
    chosen = [
        (0.6, 0.4),
        (0.5001, 0.4999),
        (0.5 + 1e-9, 0.5 - 1e-9),
        (0.3, 0.3 - 1e-10),
        (0.99, 1 - 0.99),
        (0.999999, 1 - 0.999999),
        (1 - 1e-12, 1 - (1 - 1e-12)),
        (0.999, 1e-6),
        (0.9, 1e-30),
        (0.6, 0.0444),
        (0.15, 0.05),
        (0.5, 1e-3),
    ]
    rng = np.random.default_rng(7)
    drawn = np.sort(rng.dirichlet([1, 0.3, 1], size=12)[:, :2])[:, ::-1]
    return chosen + [(float(p1), float(p2)) for p1, p2 in drawn]


@pytest.mark.parametrize(("bound", "exact"), [(tight_radius, tight), (renyi_radius, renyi), (pixeldp_radius, pixeldp)])
@pytest.mark.parametrize(("p1", "p2"), pairs())
def test_matches_fifty_digits_from_below(bound, exact, p1, p2):
    truth = exact(p1, p2)
    error = (mpf(bound(p1, p2, 1.0)) - truth) / truth
    assert -1e-9 < error <= 0


@pytest.mark.parametrize("p2", [0.499, 0.2, 0.03, 1e-3, 1e-6, 1e-12])
def test_the_tight_formula_loses_no_digits_where_the_two_nearly_agree(p2):
    """On both sides of the switch to the series, which is at a half-width of 0.01, less far out."""
    middle = abs(float(tight(p2, 0.5) * 2))
    for half in (1e-9, 1e-6, 1e-4, 1e-3, 4e-3, 9.9e-3, 1.1e-2, 3e-2, 9.9e-3 / max(1, middle), 1.1e-2 / max(1, middle)):
        p1 = float(ndtr(ndtri(p2) + 2 * half))
        if p1 + p2 > 1 or p1 <= p2:
            continue
        truth = tight(p1, p2)
        found = mpf(float(_unit(np.array([p1]), np.array([p2]))[0]))
        assert abs(found / truth - 1) < 1e-12


@pytest.mark.parametrize(("p1", "p2"), [(0.6, 0.4), (0.9, 0.1), (0.6, 0.0444), (0.99, 0.01), (0.3, 0.2)])
def test_analytic_pixeldp_is_the_best_of_its_epsilons_from_below(p1, p2):
    found = mpf(pixeldp_analytic_radius(p1, p2, 1.0))
    grid = [mp.log(mpf(p1) / mpf(p2)) / 2 * i / 60 for i in range(40)]
    best = max(pixeldp_analytic_at(p1, p2, epsilon) for epsilon in grid)
    assert best * (1 - mpf("1e-9")) < found < best * mpf("1.001")


@pytest.mark.parametrize("p1", [0.6, 0.8, 0.9])
def test_analytic_pixeldp_of_two_classes_is_total_variation(p1):
    # Here the best epsilon is 0, where delta is the total variation: a closed form, so exact from below.
    truth = mp.sqrt(2) * mp.erfinv(mpf(p1) - mpf("0.5")) * 2
    error = (mpf(pixeldp_analytic_radius(p1, 1 - p1, 1.0)) - truth) / truth
    assert -1e-9 < error <= 0


def grid(least_sum: float) -> tuple[np.ndarray, np.ndarray]:
    total = np.linspace(least_sum, 1, 120)[:, None]
    tilt = np.concatenate([np.linspace(0, 1, 121), np.logspace(-12, -3, 10), 1 - np.logspace(-12, -3, 10)])
    p1 = total * (1 + tilt) / 2
    return p1, np.minimum(total * (1 - tilt) / 2, 1 - p1)


def test_pixeldp_is_below_renyi_is_below_tight():
    # The paper compares the bounds where p1 + p2 >= 0.2; the order breaks only below 0.112, see the next test.
    p1, p2 = grid(0.112)
    assert (pixeldp_radius(p1, p2, 0.5) <= renyi_radius(p1, p2, 0.5)).all()
    assert (renyi_radius(p1, p2, 0.5) <= tight_radius(p1, p2, 0.5)).all()


def test_no_bound_passes_the_tight_one_anywhere():
    p1, p2 = (p[::8, ::3] for p in grid(0.001))
    tightest = tight_radius(p1, p2, 1.0)
    for bound in BOUNDS:
        assert (bound(p1, p2, 1.0) <= tightest).all()
    assert (pixeldp_radius(p1, p2, 1.0) <= pixeldp_analytic_radius(p1, p2, 1.0)).all()


def test_for_many_unlikely_classes_pixeldp_can_pass_renyi():
    assert renyi(0.04, 0.016) < pixeldp(0.04, 0.016)


def test_renyi_over_tight_tends_to_root_two_over_pi():
    for gap in (1e-3, 1e-6, 1e-9, 1e-12):
        p1, p2 = 0.5 + gap, 0.5 - gap
        ratio = renyi_radius(p1, p2, 1.0) / tight_radius(p1, p2, 1.0)
        assert ratio == pytest.approx(np.sqrt(2 / np.pi), rel=10 * gap**2 + 1e-10)


def test_the_certificate_of_a_linear_model_is_its_distance():
    # P(w·(x + noise) + b > 0) = Φ(distance / sigma), whatever the dimension.
    rng = np.random.default_rng(0)
    w, x, b, sigma = rng.normal(size=20), rng.normal(size=(200, 20)), 0.3, 0.7
    distance = np.abs(x @ w + b) / np.linalg.norm(w)
    p1, p2 = ndtr(distance / sigma), ndtr(-distance / sigma)
    p2 = np.minimum(p2, 1 - p1)
    np.testing.assert_allclose(tight_radius(p1, p2, sigma), distance, rtol=1e-9)
    for bound in BOUNDS:
        assert (bound(p1, p2, sigma) <= distance * (1 + 1e-9)).all()


@pytest.mark.parametrize("bound", BOUNDS)
def test_grows_with_the_gap_and_in_proportion_to_sigma(bound):
    p1 = np.linspace(0.4, 0.99, 60)
    radii = bound(p1, np.full_like(p1, 0.01), 1.0)
    assert (np.diff(radii) > 0).all()
    np.testing.assert_allclose(bound(p1, np.full_like(p1, 0.01), 3.0), 3 * radii, rtol=1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_edges(bound):
    assert bound(0.3, 0.3, 1.0) == 0
    assert bound(0.2, 0.8, 1.0) == 0
    assert bound(0.9, 0.0, 1.0) > bound(0.9, 0.05, 1.0)
    assert bound(1.0, 0.0, 1.0) > bound(0.999, 0.001, 1.0)


@pytest.mark.parametrize("bound", BOUNDS)
def test_keeps_the_kind_and_shape_it_is_given(bound):
    p1 = torch.tensor([[0.9, 0.7], [0.6, 0.4]], dtype=torch.float64)
    radii = bound(p1, 1 - p1, 0.5)
    assert isinstance(radii, torch.Tensor)
    assert radii.shape == (2, 2)
    np.testing.assert_array_equal(radii.numpy(), bound(p1.numpy(), 1 - p1.numpy(), 0.5))
    assert isinstance(bound(0.9, 0.1, 0.5), float)
    assert radii[0, 0] == bound(0.9, 1 - 0.9, 0.5)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("p1", "p2", "sigma"), [(0.9, 0.2, 1.0), (-0.1, 0.2, 1.0), (float("nan"), 0, 1), (0.9, 0.1, 0)]
)
def test_refuses_what_is_no_probability(bound, p1, p2, sigma):
    with pytest.raises(UsageError, match="expected"):
        bound(p1, p2, sigma)


def test_linf_ball_lies_inside_the_l2_ball():
    assert linf_radius(1.58, 784) == pytest.approx(1.58 / 28, rel=1e-9)
    assert linf_radius(1.58, 784) * 28 <= 1.58
