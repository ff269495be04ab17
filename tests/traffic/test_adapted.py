"""The thief who knows the two-sample test."""

import torch

from leakmeter.data.catalogue import load
from leakmeter.detectors.likeness import Waves
from leakmeter.traffic.adapted import _bent, adapted_thief, herded
from leakmeter.victims.load import load_victim


def victim():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    return load_victim(network, input_shape=(1, 8, 8), low=0.0, high=1.0)


def test_it_asks_its_own_pictures_first_and_then_distorted_ones_inside_the_box():
    own = load("digits", "train").x[:30]
    asked = victim()
    client = adapted_thief(asked, own, 50, seed=3)
    assert len(client) == 50
    assert torch.equal(client.x[:30], own)
    assert client.x.min() >= 0
    assert client.x.max() <= 1
    assert len(client.x.flatten(1).unique(dim=0)) == 50
    assert torch.equal(client.x, adapted_thief(asked, own, 50, seed=3).x)
    assert len(adapted_thief(asked, own, 20, seed=3)) == 20


def test_what_it_chooses_lies_nearer_to_natural_pictures_than_what_it_could_ask():
    own, draws = load("digits", "train").x[:60], torch.Generator().manual_seed(0)
    waves = Waves.fitted(own, seed=99)
    natural = waves(own).mean(0)
    chosen = waves(herded(own, torch.zeros(60, dtype=torch.long), 200, seed=1)).mean(0)
    others = waves(_bent(own[torch.randint(60, (200,), generator=draws)], draws)).mean(0)
    assert (chosen - natural).norm() < 0.5 * (others - natural).norm()
