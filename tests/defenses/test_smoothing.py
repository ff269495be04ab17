"""Algorithm 1 of STN as a defense: vote shares, and what they cost whom."""

import math

import numpy as np
import pytest
import torch

from leakmeter.defenses import defend, parse
from leakmeter.errors import NotApplicable
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim


def halfspace(x: np.ndarray) -> np.ndarray:
    """Two classes, divided at 0 along the first feature."""
    return np.stack([-x[:, 0], x[:, 0]], axis=1)


def victim(**more):
    return load_victim(halfspace, input_shape=(3,), low=None, high=None, outputs="logits", **more)


def test_votes_follow_the_normal_distribution() -> None:
    sigma, n, at = 0.5, 4000, 0.4
    shares = (
        Oracle(defend(f"smoothing:{sigma},{n}", victim()), "probs").query(torch.tensor([[at, 9.0, -9.0]] * 2)).probs
    )
    expected = 0.5 * (1 + math.erf(at / sigma / math.sqrt(2)))
    assert shares[:, 1].tolist() == pytest.approx([expected] * 2, abs=4 * math.sqrt(expected * (1 - expected) / n))
    assert shares[0, 1] != shares[1, 1]  # rows have noise of their own
    assert torch.allclose(shares * n, (shares * n).round(), atol=1e-2)


def test_the_server_computes_n_times_the_client_pays_once() -> None:
    asked = []

    def counted(x):
        asked.append(len(x))
        return halfspace(x)

    slow = load_victim(counted, input_shape=(3,), low=None, high=None, outputs="logits")
    slow.batch = 10
    asked.clear()
    oracle = Oracle(defend("smoothing:0.5,7", slow), "probs", budget=5)
    oracle.query(torch.zeros(4, 3))
    assert sum(asked) == 28
    assert max(asked) <= 10
    assert oracle.ledger.spent() == 4


def test_labels_are_enough_and_remote_or_single_scores_are_not(echo) -> None:
    shares = Oracle(defend("smoothing:0.1,5", echo("labels")), "probs").query(torch.eye(5)).probs
    assert torch.equal(shares.argmax(1), torch.arange(5))
    remote = echo()
    remote.remote = True
    with pytest.raises(NotApplicable, match="would ask a remote victim 5 times a query"):
        defend("smoothing:0.1,5", remote)
    with pytest.raises(NotApplicable, match="got a single score"):
        parse("smoothing:0.1,5")[0].check(echo("logits", classes=1))
