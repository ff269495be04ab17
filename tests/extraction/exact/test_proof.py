"""Where copies are put to the proof before they are called complete."""

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.exact.extremes import extreme_points
from leakmeter.extraction.exact.proof import cells_of_a_line, hard_points
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.studies.ours.exact_depth import deep_network


def spec_of(d: int, box: bool):
    low, high = (0.0, 1.0) if box else (None, None)
    return lm.load_victim(nn.Linear(d, 2), input_shape=(d,), low=low, high=high, outputs="logits").spec


def ramp(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    slope = torch.arange(1.0, x.shape[1] + 1).double()
    return (x @ slope)[:, None], slope.expand(len(x), 1, -1)


def test_a_small_box_is_asked_at_every_vertex() -> None:
    points = extreme_points(ramp, spec_of(3, True), torch.rand(4, 3).double(), torch.Generator().manual_seed(0))
    vertices = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * 3)
    assert all(bool((points == vertex).all(1).any()) for vertex in vertices)


def test_extremes_of_a_large_box_are_where_outputs_are_largest_and_smallest() -> None:
    points = extreme_points(ramp, spec_of(20, True), torch.rand(30, 20).double(), torch.Generator().manual_seed(0))
    assert set(points.sum(1).tolist()) == {0.0, 20.0}


def test_in_open_space_extremes_lie_beyond_their_starts() -> None:
    starts = torch.randn(30, 20).double()
    points = extreme_points(ramp, spec_of(20, False), starts, torch.Generator().manual_seed(0))
    assert bool((ramp(points)[0].abs() > ramp(starts)[0].abs()).double().mean() > 0.8)


def test_every_cell_of_a_line_is_another_one() -> None:
    linear = list(deep_network((6, 9, 5, 1), seed=0))[::2][:2]
    stack = Stack([Layer.of(module.weight.detach(), module.bias.detach()) for module in linear])
    points = cells_of_a_line(stack, spec_of(6, False), 50, torch.Generator().manual_seed(0))
    patterns = torch.cat([z > 0 for z in stack.inputs(points)], 1)
    assert len(points) >= 8
    assert len({tuple(pattern.tolist()) for pattern in patterns}) >= 0.8 * len(points)


def test_a_unit_in_a_corner_of_the_box_is_found_by_its_vertices(oracle) -> None:
    net = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        net[0].bias[0] = -(net[0].weight[0].clamp(min=0).sum() - 0.02)  # on in one corner only
    copy = lm.extract("exact", oracle(net, "logits+gradient", 6, box=True)).substitute
    corner = (net[0].weight[0] > 0).double()[None]
    assert float(net[0](corner)[0, 0].detach()) > 0
    assert torch.allclose(net(corner).detach(), copy(corner).detach(), atol=1e-9)


@pytest.mark.parametrize(("n", "all_of_them"), [(1000, True), (100, False)])
def test_where_nobody_pays_the_owner_looks_at_every_vertex(n: int, all_of_them: bool) -> None:
    """A unit that is on at one vertex of 16,384: run 30023 of the soak had such a one and was called exact."""
    spec, corner = spec_of(14, True), torch.tensor([1.0, 0.0] * 7).double()
    row = 2 * corner - 1
    stack = Stack([Layer.of(torch.randn(3, 14).double(), torch.randn(3).double())])
    points = torch.cat(hard_points(stack, spec, n, torch.Generator().manual_seed(0)))
    assert bool((points @ row > 6.5).any()) == all_of_them
