"""The studies of STN: one without data in full, the others as rehearsals on real images."""

from __future__ import annotations

import json
import os
from statistics import NormalDist

import pytest
import torch
from torch import nn

from leakmeter.certificates import certify
from leakmeter.studies import ROWS, STUDIES, provenance
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.stn import _networks, fig4
from leakmeter.studies.stn._attacks import Defended, Noisy, curve
from leakmeter.studies.stn.boundary import walked
from leakmeter.studies.stn.soundness import flips


def halfspace() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with torch.no_grad():
        network[1].weight.copy_(torch.stack([-torch.ones(16), torch.ones(16)]) * 5)
        network[1].bias.copy_(torch.tensor([40.0, -40.0]))
    return network


X = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
Y = (X.flatten(1).sum(1) > 8).long()


def test_fig4_orders_the_bounds_and_draws_them(tmp_path):
    found = fig4.main(StudyOptions(tmp_path, quick=True))
    assert found["region"]["renyi_over_pixeldp"][0] > 1
    assert found["region"]["renyi_over_tight"][1] < 1
    assert json.loads((tmp_path / "stn-fig4.json").read_text())["command"].startswith("leakmeter study stn-fig4")
    assert (tmp_path / "stn-fig4.png").stat().st_size > 1000


def test_votes_of_other_code_are_not_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_networks, "fused", lambda network: network)
    for code in ("this", "this", "other"):
        monkeypatch.setattr(provenance, "fingerprint", lambda code=code: code)
        _networks.votes(StudyOptions(tmp_path), halfspace(), X[:2], 0.3, 20)
    assert len(list((tmp_path / "leakmeter" / "votes").iterdir())) == 2


def test_a_smoothed_halfspace_answers_like_the_halfspace_and_a_noisy_one_does_not_repeat():
    defense = Defended(halfspace(), 0.3, votes=400)
    clear = (X.flatten(1).sum(1) - 8).abs() > 0.5
    assert torch.equal(defense.answers(X, seed=0)[clear], Y[clear])
    noisy = Noisy(halfspace(), 0.3)
    assert not torch.equal(noisy(X), noisy(X))


def test_accuracy_falls_with_the_size_of_the_attack():
    defense = Defended(halfspace(), 0.3)
    points = curve(defense, defense, X, Y, "l2", (0.1, 0.3, 1.0), seed=0, steps=5)
    accuracy = [point["accuracy"] for point in points]
    assert accuracy == sorted(accuracy, reverse=True)
    assert accuracy[0] > 0.9
    assert accuracy[-1] < 0.2


def test_a_walk_by_labels_breaks_an_ordinary_halfspace_at_its_distance():
    points = walked(Defended(halfspace()), X, Y, 300, seed=0)
    distance = (X.flatten(1).sum(1) - 8).abs() / 4
    for point in points:
        expected = (distance > point["eps"]).double().mean().item()
        assert point["accuracy"] == pytest.approx(expected, abs=0.1)


def test_no_attack_flips_inside_the_radius_and_they_do_outside():
    network = halfspace()
    certificate = certify(network, X, sigma=0.3, n=1000)
    inside, outside = (flips(network, X, certificate, reach, seed=0, steps=5) for reach in (0.99, 3.0))
    assert inside["attacked"] > 40
    assert inside["flipped"] == 0
    assert inside["mean_distance_in_radii"] > 0.8
    assert outside["flipped"] > 20


@pytest.mark.slow
@pytest.mark.skipif("LEAKMETER_DATA" not in os.environ, reason="needs MNIST below LEAKMETER_DATA")
@pytest.mark.parametrize(
    "name",
    [
        "stn-table1",
        "stn-fig1",
        "stn-fig2",
        "stn-fig3",
        "stn-boundary",
        "stn-gain",
        "stn-radius",
        "stn-soundness",
        "stn-wsmk18",
    ],
)
def test_rehearsal(tmp_path, name, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = STUDIES[name](StudyOptions(tmp_path, seeds=1, quick=True))
    assert found["cells"]
    assert ROWS[name](found)
    if name == "stn-soundness":
        assert found["cells"]["0.99 R/seed0"]["flipped"] == 0


@pytest.mark.slow
@pytest.mark.skipif(
    not {"LEAKMETER_DATA", "LEAKMETER_VICTIMS"} <= set(os.environ), reason="needs CIFAR-10 and a network others trained"
)
@pytest.mark.parametrize("name", ["stn-cifar10", "stn-boundary-cifar10"])
def test_rehearsal_on_a_network_of_others(tmp_path, name, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = STUDIES[name](StudyOptions(tmp_path, seeds=1, quick=True))
    assert ROWS[name](found)
    assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.parametrize(("radii", "met"), [((1.6, 1.55), True), ((1.6, 1.4), None), ((1.4, 1.3), False)])
def test_the_gain_is_that_of_pairs_and_said_only_where_all_agree(radii, met):
    from leakmeter.studies.stn import gain

    def cell(radius):
        points = [{"radius": at, "accuracy": 0.5} for at in gain.RADII]
        tight = {"average_radius": radius, "certified": points}
        return {"images": 400, "n": 1000, "sigma": 0.7, "natural_smoothed": 0.9, "bounds": {"tight": tight}}

    cells = {f"stability/seed{k}": cell(radius) for k, radius in enumerate(radii)}
    cells |= {f"gaussian/seed{k}": cell(radius) for k, radius in enumerate((1.5, 1.45))}
    first, second, *_ = gain.rows({"first": 20_000, "cells": cells})
    assert first.met is met
    assert second.met is False  # no difference is no gain


def test_a_radius_stands_beside_what_its_training_cost_the_most_its_votes_allow_and_how_p_a_is_spread():
    from leakmeter.studies.stn import radius

    quantiles = {"5%": 0.6, "50%": 0.99}
    tight = {"tight": {"average_radius": 1.2}}
    cell = {"images": 200, "n": 1000, "p_a": quantiles, "operations": 3e12, "bounds": tight}
    (row,) = radius.rows({"cells": {"lenet/2 epochs of 60,000/seed0": cell}})
    assert row.ours == "1.200"
    most = 0.5 * NormalDist().inv_cdf(0.001 ** (1 / 1000))  # all votes agree
    assert row.budget.startswith(f"3 Tflop of training; 1,000 votes, at most {most:.3f}, 200 images")
    assert row.budget.endswith("p_A 0.6000 at 5%, 0.9900 at 50%")
    assert row.verdict == "no goal"


def test_training_for_the_dual_bound_certifies_what_no_attack_breaks():
    from functools import partial

    from leakmeter.studies.stn import wsmk18
    from leakmeter.training.loop import Recipe, fit

    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (64,), generator=generator)
    x = 0.2 * torch.rand(64, 1, 28, 28, generator=generator)
    x[y == 1, :, :14] += 0.5
    network = wsmk18.small_network(0)
    before = wsmk18.measured([network], x[:20], y[:20], seed=0, eps=0.3)["certified"]
    fit(network, (x, y), partial(wsmk18._loss, 0.3), Recipe(steps=15, batch=16, lr=3e-3), seed=0)
    after = wsmk18.measured([network.eval()], x[:20], y[:20], seed=0, eps=0.3)
    assert before < 0.5 < after["certified"] <= after["under_attack"]
    assert after["certified_and_broken"] == 0


def test_a_robust_training_that_was_killed_goes_on(tmp_path, monkeypatch):
    from leakmeter import checkpoint
    from leakmeter.studies.stn import wsmk18

    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(wsmk18, "STAGES", (0.1, 0.2))
    x = torch.rand(64, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    data, settings, steps = (x, torch.arange(64) % 10), StudyOptions(tmp_path), []

    def counted(*words):
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return loss(*words)

    whole, killed, resumed = (wsmk18.small_network(0) for _ in range(3))
    wsmk18.robustly(whole, data, 2, settings, tmp_path / "whole", seed=1)
    loss = wsmk18._loss
    monkeypatch.setattr(wsmk18, "_loss", counted)
    with pytest.raises(KeyboardInterrupt):
        wsmk18.robustly(killed, data, 2, settings, tmp_path / "half", seed=1)
    wsmk18.robustly(resumed, data, 2, settings, tmp_path / "half", seed=1)
    assert len(steps) == 5  # three, the one that died, and that one again
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
