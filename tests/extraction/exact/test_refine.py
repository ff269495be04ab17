"""A whole copy of several layers, fitted to fresh values."""

import pytest
import torch

import leakmeter as lm
from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.output import Known
from leakmeter.extraction.exact.refine import fit
from leakmeter.extraction.exact.stack import Layer, Stack
from leakmeter.studies.ours.exact_depth import deep_network

_WIDTHS = (12, 8, 6, 2)


def rough_copy(net: torch.nn.Sequential, noise: float) -> Known:
    numbers = [part.detach() + noise * torch.randn(part.shape, dtype=torch.float64) for part in net.parameters()]
    layers = [Layer.of(*numbers[i : i + 2]) for i in range(0, len(numbers) - 2, 2)]
    return Known(Stack(layers), numbers[-2], numbers[-1], numbers[0][:0])


@pytest.mark.parametrize("view", ["logits", "probs"])
def test_a_rough_copy_is_brought_to_the_precision_of_single_values(view: str, oracle) -> None:
    net = deep_network(_WIDTHS, seed=0)
    asker, known = Asker(oracle(net, view, 12)), rough_copy(net, 1e-6)
    known.weight, known.bias = asker.contrasts @ known.weight, asker.contrasts @ known.bias
    asker.steepest = 1.0
    x = torch.randn(500, 12, dtype=torch.float64)
    truth = net(x).detach() @ asker.contrasts.T
    asked = torch.randn(1000, 12, dtype=torch.float64)
    found = fit(asker, known, asked, asker.ask(asked).values)
    assert float((known(x) - truth).abs().max()) > 1e-7
    assert float((found(x) - truth).abs().max()) < 1e-12


def test_a_copy_that_no_step_brings_closer_stays_as_it_is(oracle) -> None:
    net, other = deep_network(_WIDTHS, seed=0), deep_network(_WIDTHS, seed=1)
    asker, known = Asker(oracle(net, "logits", 12)), rough_copy(other, 0.0)
    asker.steepest = 1.0
    asked = torch.randn(1000, 12, dtype=torch.float64)
    found = fit(asker, known, asked, asker.ask(asked).values)
    x = torch.randn(500, 12, dtype=torch.float64)
    assert (found(x) - net(x)).norm() <= 1.5 * (known(x) - net(x)).norm()


def test_several_layers_from_values_alone_are_exact_to_almost_every_bit(oracle) -> None:
    copy = lm.extract("exact-values", oracle(deep_network((12, 6, 4, 1), seed=1), "logits", 12), seed=0)
    assert copy.findings.certificate.exact
    assert copy.findings.certificate.bits > 40


@pytest.mark.slow
def test_a_unit_that_random_points_rarely_switch_is_found_among_the_points_to_be_fitted(oracle) -> None:
    net = deep_network((40, 20, 10, 10, 1), seed=0)
    copy = lm.extract("exact-values", oracle(net, "logits", 40), seed=0)
    assert copy.findings.exact
    assert copy.notes["layers"] == [20, 10, 10]
