from __future__ import annotations

import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.exact.probes import steered_point, telling_pair
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.extraction.exact.suspects import _dependent


def _stack(known: torch.Tensor) -> Stack:
    """Two units that are on where their feature is positive, and one above that switches where these are equal."""
    first = Layer.of(torch.eye(2).double(), torch.zeros(2).double())
    return Stack([first, Layer.of(torch.tensor([[1.0, -1.0]]).double(), torch.zeros(1).double(), known)])


def test_a_line_is_laid_where_the_unit_switches_while_the_one_of_the_unknown_weight_is_on() -> None:
    x = torch.tensor([[2.0, -1.0], [2.0, 1.0], [1.0, 2.0], [-1.0, 3.0]]).double()
    pair = telling_pair(_stack(torch.tensor([[True, False]])), x, torch.Generator().manual_seed(0))
    assert pair is not None
    ends = sorted(end.tolist() for end in pair)
    assert all(end[1] > 0 for end in ends)  # the second unit is on all the way
    assert {end[0] > end[1] for end in ends} == {True, False}  # and the one above switches


def test_where_every_weight_is_known_no_line_tells_more() -> None:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double()
    assert telling_pair(_stack(torch.ones(1, 2, dtype=torch.bool)), x, torch.Generator().manual_seed(0)) is None


def test_a_steered_point_is_the_vertex_that_a_single_row_leads_to() -> None:
    net = nn.Linear(3, 2).double()
    spec = lm.load_victim(net, input_shape=(3,), low=0.0, high=1.0, outputs="logits").spec
    row = torch.tensor([[1.0, -2.0, 3.0]]).double()
    found = {tuple(steered_point(spec, row, torch.Generator().manual_seed(i)).tolist()) for i in range(20)}
    assert found == {(1.0, 0.0, 1.0), (0.0, 1.0, 0.0)}


def test_a_row_is_dependent_only_where_the_others_leave_directions_free() -> None:
    rows = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).double()
    mixture = torch.tensor([1.0, -2.0, 0.5]).double() @ rows
    assert _dependent(rows, mixture)
    assert not _dependent(rows, mixture + torch.eye(5).double()[0])
    assert not _dependent(torch.eye(5).double(), mixture)


def test_where_a_layer_has_no_unit_any_vertex_is_as_good_as_another() -> None:
    victim = lm.load_victim(nn.Linear(4, 2), input_shape=(4,), low=0.0, high=1.0, outputs="logits")
    generator, nothing = torch.Generator().manual_seed(0), torch.zeros(0, 4).double()
    found = {tuple(steered_point(victim.spec, nothing, generator).tolist()) for _ in range(50)}
    assert len(found) > 8
    assert {value for vertex in found for value in vertex} == {0.0, 1.0}
