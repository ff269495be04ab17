"""Strength against foolbox on the same network and images."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from leakmeter.evasion.base import evade

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    foolbox = pytest.importorskip("foolbox")


@pytest.fixture(scope="module")
def peer(trained):
    return foolbox.PyTorchModel(trained, bounds=(0, 1), device="cpu")


def peer_rate(attack, peer, x: Tensor, y: Tensor, eps: float) -> float:
    torch.manual_seed(0)
    return attack(peer, x, y, epsilons=[eps])[2].double().mean().item()


@pytest.mark.parametrize("eps", [0.05, 0.1, 0.15])
def test_fgsm_is_the_same_attack(trained, digits, peer, eps):
    ours = evade("fgsm", trained, *digits, norm="linf", eps=eps)
    _, theirs, won = foolbox.attacks.LinfFastGradientAttack()(peer, *digits, epsilons=[eps])
    assert torch.allclose(ours.examples, theirs[0], atol=1e-6)
    assert torch.equal(ours.success, won[0])


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.06), ("linf", 0.1), ("l2", 0.5), ("l2", 0.8)])
def test_pgd_is_no_weaker(trained, digits, peer, norm, eps):
    kind = foolbox.attacks.LinfPGD if norm == "linf" else foolbox.attacks.L2PGD
    theirs = peer_rate(kind(steps=40, rel_stepsize=2.5 / 40), peer, *digits, eps)
    assert evade("pgd", trained, *digits, norm=norm, eps=eps, steps=40).rate >= theirs - 0.01


def test_bim_is_no_weaker(trained, digits, peer):
    theirs = peer_rate(foolbox.attacks.LinfBasicIterativeAttack(steps=10, rel_stepsize=0.25), peer, *digits, 0.1)
    assert evade("bim", trained, *digits, norm="linf", eps=0.1, steps=10).rate >= theirs - 0.01


def test_cw_comes_as_near(trained, digits, peer):
    x, y = digits[0][:30], digits[1][:30]
    _, theirs, won = foolbox.attacks.L2CarliniWagnerAttack(steps=100)(peer, x, y, epsilons=None)
    ours = evade("cw", trained, x, y, steps=100)
    assert won.all()
    assert ours.rate == 1
    assert ours.distance.median() <= 1.02 * (theirs - x).flatten(1).norm(dim=1).median()


def test_boundary_comes_as_near(trained, digits, peer):
    x, y = digits[0][:10], digits[1][:10]
    start = evade("boundary", trained, x, y, steps=0).examples  # foolbox gives up where noise is no start
    torch.manual_seed(0)
    attack = foolbox.attacks.BoundaryAttack(steps=1000)
    _, theirs, _ = attack(peer, x, y, epsilons=None, starting_points=start)
    ours = evade("boundary", trained, x, y, steps=1000)
    assert ours.distance.median() <= 1.05 * (theirs - x).flatten(1).norm(dim=1).median()
