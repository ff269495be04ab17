"""Whether two ask alike: the chance is uniform where they do, and small where they do not."""

import torch
from scipy.stats import kstest

from leakmeter.detectors.likeness import Cloud, Usual, Waves, chance_alike, distance
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
    usual = cloud(waves, 0.0, 300, 99)
    found = alike_coalitions({name: (asked, usual) for name, asked in clouds.items()})
    assert [each.clients for each in found] == [("a", "b")]


def test_clouds_together_are_the_cloud_of_all_rows():
    waves = Waves.fitted(torch.randn(300, 3, generator=stream(0, "reference")))
    rows = waves(torch.randn(70, 3, generator=stream(1, "rows")) * 2)
    whole, parts = Cloud.of(rows), Cloud.of(rows[:20]).with_(Cloud.of(rows[20:]))
    assert parts.n == whole.n
    assert torch.allclose(parts.mean, whole.mean)
    assert torch.allclose(parts.covariance, whole.covariance)


def test_ten_accounts_of_one_thief_are_one_and_honest_clients_with_one_habit_are_not():
    """Half of the honest clients ask of one class, half of the other: each half asks alike, and unlike the whole."""
    reference = torch.randn(600, 3, generator=stream(0, "reference"))
    reference[:300] += 3.0
    labels = (torch.arange(600) < 300).long()
    waves = Waves.fitted(reference)
    usual = Usual.of(waves(reference), labels)
    clients = {}
    for k in range(10):
        habit = k % 2
        x = torch.randn(80, 3, generator=stream(k, "honest")) + 3.0 * habit
        clients[f"honest-{k}"] = (Cloud.of(waves(x)), usual.like(torch.full((80,), habit)))
        x = torch.rand(80, 3, generator=stream(k, "thief")) * 8 - 4
        clients[f"thief-{k}"] = (Cloud.of(waves(x)), usual.like((x[:, 0] > 0).long()))
    (found,) = alike_coalitions(clients)
    assert found.clients == tuple(sorted(f"thief-{k}" for k in range(10)))


def test_classes_that_honest_clients_do_not_ask_are_compared_with_all_they_ask():
    x = torch.randn(60, 3, generator=stream(0, "reference"))
    usual = Usual.of(Waves.fitted(x)(x), torch.zeros(60, dtype=torch.long))
    assert usual.like(torch.full((9,), 5)) is usual.whole
    assert torch.allclose(usual.like(torch.tensor([0, 0, 5])).mean, usual.whole.mean)
