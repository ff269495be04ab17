import torch

from leakmeter.extraction.exact.copy import hand_over, orientations
from leakmeter.extraction.exact.network import OneHidden, factor


def around_origin(net: torch.nn.Sequential) -> OneHidden:
    """The copy a perfect search from the origin finds: every unit off there, the rest in the skip."""
    d = net[0].in_features
    start = torch.zeros(d, dtype=torch.float64)
    x = start.clone().requires_grad_()
    rows = torch.stack([torch.autograd.grad(net(x[None])[0, c], x)[0] for c in range(net[2].out_features)])
    copy = OneHidden(start, net(start[None])[0].detach(), rows)
    away = -torch.sign(net[0].bias.detach())
    normals, offsets = net[0].weight.detach() * away[:, None], -net[0].bias.detach() * away
    noise = torch.full_like(offsets, 1e-12)
    copy.add(normals, offsets, net[2].weight.detach(), jump_noise=1e-12, bias_noise=noise)
    return copy


def test_seen_from_one_point_all_units_are_off_and_the_function_is_the_same(network) -> None:
    net, x = network(12, 7, 3), torch.randn(100, 7, dtype=torch.float64)
    copy = around_origin(net)
    assert (copy.hidden(torch.zeros(1, 7, dtype=torch.float64)) < 0).all()
    assert torch.allclose(copy(x), net(x), atol=1e-12)
    assert torch.allclose(copy.pieces(x)[1], torch.func.vmap(torch.func.jacrev(lambda r: net(r[None])[0]))(x))


def test_orientations_bring_back_the_victims_own_form(network) -> None:
    net, x = network(12, 7, 3), torch.randn(100, 7, dtype=torch.float64)
    copy = around_origin(net)
    turned = orientations(copy)
    assert turned is not None
    assert torch.equal(turned.bool(), net[0].bias > 0)
    module = hand_over(copy, torch.eye(3, dtype=torch.float64))
    assert module.skip is None
    assert torch.allclose(module(x), net(x), atol=1e-12)


def test_orientations_are_left_open_where_they_cannot_be_told(network) -> None:
    net, x = network(12, 7, 1), torch.randn(100, 7, dtype=torch.float64)
    copy = around_origin(net)
    assert orientations(copy) is None
    assert torch.allclose(hand_over(copy, torch.ones(1, 1, dtype=torch.float64))(x), net(x), atol=1e-12)


def test_a_bend_that_was_two_units_is_put_right_by_adding_the_difference(network) -> None:
    net, x = network(6, 9, 2), torch.randn(50, 9, dtype=torch.float64)
    copy, right = around_origin(net), around_origin(net)
    noise = {"jump_noise": 1e-12, "bias_noise": torch.full((3,), 1e-12, dtype=torch.float64)}
    normal = torch.ones(9, dtype=torch.float64) / 3
    wrong = (normal[None], torch.tensor([1.0]).double(), torch.ones(2, 1).double())
    copy.add(*wrong, jump_noise=1e-12, bias_noise=torch.tensor([1e-12]).double())
    assert copy.units == 7
    more = torch.cat([normal[None], right.normals[:2]])
    copy.add(
        more,
        torch.cat([wrong[1], right.offsets[:2]]),
        torch.cat([-wrong[2], 0.5 * right.weights[:, :2]], dim=1),
        **noise,
    )
    assert copy.units == 6
    right.weights[:, :2] *= 1.5
    assert torch.allclose(copy(x), right(x), atol=1e-12)


def test_factor_finds_the_unit_behind_a_jump() -> None:
    w, a, ahead = torch.randn(4, 1).double(), torch.randn(1, 6).double(), torch.randn(1, 6).double()
    normals, weights, rows = factor((w @ a)[None], ahead, 1e-10)
    assert rows.tolist() == [0]
    assert (normals @ ahead.T).item() > 0
    assert torch.allclose(weights @ normals, w @ a * torch.sign(a @ ahead.T) ** 2)
    assert torch.allclose(normals.norm(dim=1), torch.ones(1).double())


def test_factor_splits_what_was_not_told_apart() -> None:
    jump = torch.randn(4, 2).double() @ torch.randn(2, 6).double()
    normals, weights, rows = factor(jump[None], torch.randn(1, 6).double(), 1e-10)
    assert rows.tolist() == [0, 0]
    assert torch.allclose(weights @ normals, jump)
