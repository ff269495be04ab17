import math

import pytest
import torch
from torch import nn

from leakmeter.extraction.exact.certificate import aligned, certify_copy
from leakmeter.seeds import stream


def test_the_certificate_measures_what_it_says(network, oracle) -> None:
    net = network(8, 5, 2)
    door = oracle(net, "logits+gradient", 5)
    off = nn.Sequential(net, nn.Linear(2, 2).double())
    with torch.no_grad():
        off[1].weight.copy_(torch.eye(2))
        off[1].bias.copy_(torch.tensor([0.0, 0.125]))
    certificate = certify_copy(off, door, layers=(8,), missing=None, seed=1)
    x = door.spec.sample(1000, stream(1, "exact", "certificate"))
    assert certificate.max_error == pytest.approx(0.125)
    assert certificate.bits == pytest.approx(3.0)
    assert certificate.relative_error == pytest.approx(0.125 / float(net(x).detach().abs().max()))
    assert not certificate.exact
    assert door.ledger.spent("evaluation") == 1000
    assert door.ledger.spent("attack") == 0


def test_a_perfect_copy_has_no_bits_to_count(network, oracle) -> None:
    net = network(8, 5, 2)
    certificate = certify_copy(net, oracle(net, "probs", 5), layers=(8,), missing="something", seed=0)
    assert not certificate.exact  # a copy that is not complete is not exact, whatever was measured
    assert certificate.bits is None or certificate.bits > 45
    assert not certificate.complete


def test_units_are_aligned_up_to_order_sign_and_scale(network) -> None:
    truth, found = network(6, 4)[0], network(6, 4)[0]
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    scale = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0, math.pi]).double()
    with torch.no_grad():
        found.weight.copy_(truth.weight[order] * scale[:, None])
        found.bias.copy_(truth.bias[order] * scale)
        found.weight[4] += 0.1
    match = aligned(found, truth, tolerance=1e-12)
    assert match.tolist() == [2, 1, 5, 0, -1, 3]
