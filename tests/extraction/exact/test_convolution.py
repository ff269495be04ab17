"""Convolutions without pooling are fully connected layers with shared rows."""

import torch
from torch import nn

import leakmeter as lm


def victim(*layers: nn.Module) -> lm.Oracle:
    torch.manual_seed(0)
    net = nn.Sequential(*layers, nn.LazyLinear(3)).double()
    net(torch.zeros(1, 1, 6, 6).double())
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    return lm.Oracle(
        lm.load_victim(net, input_shape=(1, 6, 6), low=None, high=None, outputs="logits"), "logits+gradient", 400
    )


def test_one_convolution_is_recovered_as_the_dense_layer_it_is() -> None:
    copy = lm.extract("exact", victim(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()))
    assert copy.findings.exact
    assert copy.findings.units == 32
    said = copy.notes["convolution"]
    assert said == "32 of 32 units of the first layer share the weights of 2 kernels (1x3x3), moved over the picture"


def test_a_dense_layer_is_not_said_to_be_a_convolution() -> None:
    copy = lm.extract("exact", victim(nn.Flatten(), nn.Linear(36, 12), nn.ReLU()))
    assert copy.findings.exact
    assert copy.notes["convolution"] is None


def test_pooling_is_said_to_be_no_such_network() -> None:
    copy = lm.extract("exact", victim(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()))
    assert not copy.findings.complete
    assert not copy.findings.exact
    assert copy.findings.missing


def test_two_convolutions_are_said_to_be_incomplete() -> None:
    two = [nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Flatten()]
    copy = lm.extract("exact", victim(*two))
    assert not copy.findings.complete
    assert not copy.findings.exact
