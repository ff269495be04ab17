"""Networks whose units are mostly off, as those that learned pictures on black: what their bends tell, and do not."""

import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.bank import Bank, first_layer
from leakmeter.extraction.exact.probes import drawn_point
from leakmeter.extraction.exact.rows import Evidence, agree
from leakmeter.extraction.exact.sight import seen_from_both_sides
from leakmeter.extraction.exact.survey import gradient_survey
from leakmeter.studies.ours.exact_depth import deep_network


def sparse_network() -> nn.Sequential:
    """Ten units that are on at black and mostly off elsewhere, and thirty above."""
    net = deep_network((40, 10, 30, 8), seed=2)
    with torch.no_grad():
        net[0].weight -= 0.15
        net[0].bias.fill_(0.5)
    return net


def dark_lines(net: nn.Module, oracle, n: int) -> Bank:
    """From black, where all units are on, to faint noise: through the same cells again and again."""
    asker, generator = Asker(oracle(net, "logits+gradient", 40, box=True)), torch.Generator().manual_seed(0)
    ends = torch.rand(n, 40, generator=generator, dtype=torch.float64)
    return Bank([gradient_survey(asker, 0 * end, end, (0.0, 1.0), False) for end in ends])


def first_layers(net: nn.Sequential, bank: Bank) -> torch.Tensor:
    """Which bends really are of the first layer, [m]."""
    weight, bias = net[0].weight.detach(), net[0].bias.detach()
    apart = (bank.x @ weight.T + bias).abs() / weight.norm(dim=1)
    return apart.amin(1) < 1e-9


def test_what_bends_above_is_seen_on_both_sides_and_no_unit_of_the_first_layer_is(oracle) -> None:
    net = sparse_network()
    bank = dark_lines(net, oracle, 24)
    first = first_layers(net, bank)
    assert not bool((bank.above & first).any())
    assert float(bank.above[~first].double().mean()) > 0.7


def test_fewer_units_above_that_lines_meet_alike_are_taken_for_a_first_layer(oracle) -> None:
    net = sparse_network()
    bank, rows = dark_lines(net, oracle, 24), nn.functional.normalize(net[0].weight.detach())
    false = []
    for above in (torch.zeros_like(bank.above), bank.above):
        bank.above = above
        layer = first_layer(bank, 1e-6)
        assert layer is not None
        false.append(int(((layer.weight @ rows.T).abs().amax(1) < 1 - 1e-9).sum()))
    assert false[1] <= 3
    assert false[0] >= 30


def test_what_all_lines_together_see_on_both_sides_is_no_unit_of_the_first_layer(oracle) -> None:
    net = sparse_network()
    bank = dark_lines(net, oracle, 24)
    bank.above = torch.zeros_like(bank.above)
    layer = first_layer(bank, 1e-6)
    assert layer is not None
    units = torch.cat([net[0].weight.detach(), net[0].bias.detach()[:, None]], 1)  # parallel ones may be false as well
    found = nn.functional.normalize(torch.cat([layer.weight, layer.bias[:, None]], 1))
    true = (found @ nn.functional.normalize(units).T).abs().amax(1) > 1 - 1e-9
    assert int(true.sum()) == 10
    refuted = seen_from_both_sides(layer, bank, 1e-6)
    assert not bool((refuted & true).any())
    assert float(refuted[~true].double().mean()) > 0.9


def test_where_the_outputs_see_all_directions_nothing_is_said_of_layers(oracle) -> None:
    net = deep_network((3, 6, 6, 3), seed=0)
    asker = Asker(oracle(net, "logits+gradient", 3))
    survey = gradient_survey(asker, torch.randn(3).double(), torch.randn(3).double(), (-50.0, 50.0), False)
    assert len(survey.t) > 0
    assert not bool(survey.above.any())


def test_bends_agree_by_more_than_the_one_coefficient_that_outweighs_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 1e-4 * torch.randn(4, 8, generator=generator, dtype=torch.float64)
    rows[:, 2] = 1.0
    found = Evidence(rows, torch.ones(4, 8, dtype=torch.bool), torch.ones(4, dtype=torch.bool), torch.ones(4))
    assert not bool(agree(found, 1.7e-3, 3).any())


def test_drawn_points_are_pictures_in_the_box_and_some_are_mostly_black() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 2))
    spec = lm.load_victim(net, input_shape=(1, 12, 12), low=-1.0, high=1.0).spec
    points = torch.stack([drawn_point(spec, torch.Generator().manual_seed(i)) for i in range(20)])
    assert points.shape == (20, 144)
    assert float(points.min()) >= -1.0
    assert float(points.max()) <= 1.0
    assert int(((points == -1).double().mean(1) > 0.5).sum()) >= 4
