"""Whether two ask alike: the chance is uniform where they do, and small where they do not."""

import torch
from scipy.stats import kstest

from leakmeter.detectors.likeness import Cloud, Waves, chance_alike, distance
from leakmeter.seeds import stream
from leakmeter.watch.coalitions import alike_coalitions


def cloud(waves, shift, n, seed):
    return Cloud.of(waves(torch.randn(n, 3, generator=stream(seed, "x")) + shift))


def test_the_chance_is_about_uniform_for_samples_of_one_distribution():
    waves = Waves.fitted(torch.randn(300, 3, generator=stream(0, "reference")))
    chances = [chance_alike(cloud(waves, 0, 100, 2 * k), cloud(waves, 0, 150, 2 * k + 1)) for k in range(150)]
    assert kstest(chances, "uniform").pvalue > 0.001
    assert chance_alike(cloud(waves, 0, 100, 1), cloud(waves, 1.0, 100, 2)) < 1e-6
    away = distance(cloud(waves, 0, 4000, 1), cloud(waves, 1.0, 4000, 2))
    assert distance(cloud(waves, 0, 4000, 1), cloud(waves, 0, 4000, 2)) < 0.02 * away


def test_only_strangers_that_ask_alike_are_put_together():
    waves = Waves.fitted(torch.randn(300, 3, generator=stream(0, "reference")))
    shifts = {"a": 2.0, "b": 2.0, "c": -2.0, "honest-1": 0.0, "honest-2": 0.0}
    clouds = {name: cloud(waves, shift, 200, place + 10) for place, (name, shift) in enumerate(shifts.items())}
    assert [found.clients for found in alike_coalitions(clouds, cloud(waves, 0.0, 300, 99))] == [("a", "b")]
