import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from leakmeter.extraction.exact.kinks import CrowdedError, Trace, search

EPS = 2.3e-16


class Bent:
    """sum_i w_i relu(+-(t - t_i)) with gradients in k dimensions, all seen along the first."""

    def __init__(self, at: Tensor, outputs: int, k: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.at, self.asked = at, 0
        self.w = torch.randn(outputs, len(at), generator=generator, dtype=torch.float64)
        self.a = torch.randn(len(at), k, generator=generator, dtype=torch.float64)
        self.along = torch.zeros(k, dtype=torch.float64)
        self.along[0] = 1.0

    def __call__(self, t: Tensor) -> Trace:
        self.asked += len(t)
        z = (t[:, None] - self.at) * (self.a @ self.along)
        f = torch.relu(z) @ self.w.T
        g = torch.stack([((z > 0) * row) @ self.a for row in self.w], dim=1)
        size = g.flatten(1).norm(dim=1).max() + 1
        return Trace(t, f, g, 16 * EPS * (f.norm(dim=1) + size), (16 * EPS * size).expand(len(t)))

    def search(self, low: float = -50.0, high: float = 50.0, **options: object):
        ends = self(torch.tensor([low, high], dtype=torch.float64))
        return search(self, ends, self.along, resolution=8 * EPS, **options)

    def jumps(self) -> Tensor:
        turn = torch.sign(self.a @ self.along)
        return torch.einsum("ci,id->icd", self.w * turn, self.a)


@pytest.mark.parametrize(("outputs", "k"), [(1, 1), (1, 5), (3, 4), (10, 20)])
def test_every_bend_is_found_with_its_place_and_jump(outputs: int, k: int) -> None:
    at = torch.randn(40, generator=torch.Generator().manual_seed(outputs), dtype=torch.float64)
    function = Bent(at, outputs, k)
    bends = function.search()
    order = at.argsort()
    assert torch.allclose(bends.t, at[order], atol=1e-9)
    assert torch.allclose(bends.jump, function.jumps()[order], atol=1e-9)
    assert not bends.merged.any()


def test_several_outputs_cost_hardly_more_than_one_question_a_bend() -> None:
    at = torch.linspace(-3, 3, 101, dtype=torch.float64) + 0.01
    one, ten = Bent(at, 1, 12), Bent(at, 10, 12)
    one.search()
    ten.search()
    assert ten.asked < 1.6 * len(at) < one.asked < 4.5 * len(at)


def test_a_believed_bend_may_be_two_but_the_function_on_the_line_ends_right() -> None:
    at = torch.randn(60, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    function = Bent(at, 1, 6)
    bends = function.search(believe=True)
    assert len(bends.t) <= len(at)
    assert torch.allclose(bends.jump.sum(0), function.jumps().sum(0), atol=1e-9)


def test_two_bends_in_one_place_are_one() -> None:
    at = torch.tensor([-1.0, 0.5, 0.5, 2.0], dtype=torch.float64)
    bends = Bent(at, 1, 3).search()
    assert torch.allclose(bends.t, torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64), atol=1e-9)


def test_outputs_that_all_share_one_direction_are_not_taken_for_proof() -> None:
    at = torch.randn(30, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    function = Bent(at, 2, 5)
    function.w[1] = -2 * function.w[0]
    assert torch.allclose(function.search().t, at.sort()[0], atol=1e-9)


def test_when_no_question_is_left_what_remains_is_marked() -> None:
    function = Bent(torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), 1, 3)
    left = 10

    def room(wanted: int) -> int:
        nonlocal left
        allowed = min(wanted, left)
        left -= allowed
        return allowed

    bends = function.search(room=room)
    assert function.asked == 2 + 10
    assert bends.merged.any()


def test_a_smooth_function_ends_the_search_by_an_error() -> None:
    def smooth(t: Tensor) -> Trace:
        return Trace(t, torch.tanh(t)[:, None], (1 - torch.tanh(t) ** 2)[:, None, None], 0 * t + 1e-15, 0 * t + 1e-15)

    with pytest.raises(CrowdedError):
        search(smooth, smooth(torch.tensor([-3.0, 2.0], dtype=torch.float64)), torch.ones(1).double(), resolution=1e-15)


@settings(max_examples=40)
@given(st.lists(st.floats(-40, 40), min_size=0, max_size=12, unique=True), st.integers(1, 3), st.integers(0, 99))
def test_any_bends_are_found_or_marked_and_always_add_up(places: list[float], outputs: int, seed: int) -> None:
    function = Bent(torch.tensor(places, dtype=torch.float64), outputs, 3, seed)
    bends = function.search()
    assert torch.allclose(bends.jump.sum(0), function.jumps().sum(0), atol=1e-8)
    for t in bends.t[~bends.merged]:
        assert (function.at - t).abs().min() < 1e-6
    apart = torch.tensor(sorted(places)).diff().min() if len(places) > 1 else 1.0
    if apart > 1e-3:
        assert len(bends.t) == len(places)


def test_units_behind_one_that_is_on_are_told_apart() -> None:
    at = torch.randn(12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    function = Bent(at, 4, 6)
    function.w = torch.outer(function.w[:, 0], function.w[0])  # all outputs follow one number
    bends = function.search()
    assert torch.allclose(bends.t, at.sort().values, atol=1e-9)
