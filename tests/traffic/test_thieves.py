"""Thieves of made-up traffic."""

import pytest
import torch

from leakmeter.errors import UsageError
from leakmeter.traffic.thieves import thief
from leakmeter.victims.load import load_victim


def test_an_attack_whose_first_turn_is_too_dear_is_told_in_a_sentence() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    victim = load_victim(network, input_shape=(1, 8, 8), low=0.0, high=1.0)
    with pytest.raises(UsageError, match="100 queries are too few for its first turn"):
        thief(victim, "codfe", 100)
