"""Projections against their definitions, with numbers that hypothesis makes up."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from leakmeter.box import ROUNDING, Box
from leakmeter.evasion.ball import BALLS, Norm, settle

norms = st.sampled_from(["linf", "l2"])
radii = st.floats(1e-6, 3.0)
unit_rows = arrays(np.float32, (3, 7), elements=st.floats(0, 1, width=32))
any_rows = arrays(np.float32, (3, 7), elements=st.floats(-5, 5, width=32, allow_subnormal=False))


def ball(norm: Norm, center: np.ndarray, eps: float):
    x = torch.from_numpy(center)
    return BALLS[norm].around(x, eps, Box.around(x, 0.0, 1.0))


@given(norms, unit_rows, any_rows, radii)
def test_settled_points_are_in_the_box_and_within_eps_exactly(norm, center, points, eps):
    settled = settle(ball(norm, center, eps), torch.from_numpy(points))
    assert settled.dtype == torch.float32
    assert settled.min() >= 0
    assert settled.max() <= 1
    offset = settled.numpy().astype(np.float64) - center.astype(np.float64)
    distance = np.abs(offset).max(1) if norm == "linf" else np.sqrt((offset**2).sum(1))
    assert (distance <= eps).all()


@given(norms, unit_rows, unit_rows, radii)
def test_points_already_inside_are_not_touched(norm, center, points, eps):
    region = ball(norm, center, eps)
    once = settle(region, torch.from_numpy(points))
    assert torch.equal(settle(region, once), once)


@given(norms, unit_rows, any_rows, radii)
def test_the_quick_projection_is_off_by_rounding_only(norm, center, points, eps):
    region = ball(norm, center, eps)
    projected = region.project(torch.from_numpy(points))
    assert projected.min() >= 0
    assert projected.max() <= 1
    assert (region.distance(projected) <= eps * (1 + 1e-6) + 1e-6).all()


@settings(max_examples=20)
@given(arrays(np.float32, (1, 3), elements=st.floats(0, 1, width=32)), st.floats(0.1, 1.0), any_rows)
def test_the_linf_projection_is_the_nearest_point(center, eps, points):
    region = ball("linf", center, eps)
    point = points[:1, :3]
    edges = [(max(0.0, c - eps), min(1.0, c + eps)) for c in center[0].tolist()]
    nearest = minimize(lambda v: ((v - point[0]) ** 2).sum(), center[0], bounds=edges).x
    assert np.allclose(region.project(torch.from_numpy(point))[0].numpy(), nearest, atol=1e-3)


@given(norms, unit_rows, any_rows)
def test_the_steepest_step_has_length_one_and_climbs(norm, center, gradient):
    region = ball(norm, center, 1.0)
    x, slope = torch.from_numpy(center), torch.from_numpy(gradient)
    step = region.steepest(slope, x)
    assert ((step * slope).sum(1) >= 0).all()
    length = step.abs().amax(1) if norm == "linf" else step.norm(dim=1)
    assert ((length - 1).abs() < 1e-4).logical_or(length == 0).all()


def test_an_l2_step_spends_nothing_on_features_that_cannot_move():
    x = torch.tensor([[0.0, 1.0, 0.5]])
    region = BALLS["l2"].around(x, 1.0, Box.around(x, 0.0, 1.0))
    assert torch.allclose(region.steepest(torch.tensor([[-3.0, 4.0, 0.1]]), x), torch.tensor([[0.0, 0.0, 1.0]]))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_random_starts_fill_the_ball(norm: Norm):
    x = torch.zeros(20_000, 2)
    points = BALLS[norm].around(x, 0.5, Box(None, None)).sample(torch.Generator().manual_seed(0))
    # A uniform point of a square is within half its radius with probability 1/4, and so is one of a disk.
    distance = points.abs().amax(1) if norm == "linf" else points.norm(dim=1)
    assert distance.max() <= 0.5
    assert abs((distance < 0.25).double().mean().item() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 20_000)


def test_a_box_may_differ_by_feature_and_be_open():
    x = torch.tensor([[0.0, 5.0]])
    box = Box.around(x, torch.tensor([-1.0, 4.0]), None)
    assert torch.equal(box.clamp(torch.tensor([[-9.0, 0.0]])), torch.tensor([[-1.0, 4.0]]))
    assert torch.equal(box.clamp(torch.tensor([[9.0, 99.0]])), torch.tensor([[9.0, 99.0]]))
    points = box.sample((2000, 2), torch.Generator().manual_seed(0), x.dtype)
    assert (points >= torch.tensor([-1.0, 4.0])).all()


def test_rounding_at_the_edge_of_the_box_is_forgiven_and_mended():
    x = torch.tensor([[-2.98e-8, 1.0]])
    assert torch.equal(Box.around(x, 0.0, 1.0).admit(x, ROUNDING), torch.tensor([[0.0, 1.0]]))
