"""Votes on disk: a killed run goes on to the same votes, a finished one is read back, nothing else is accepted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from leakmeter.certificates import certify, counts_file
from leakmeter.errors import UsageError


def network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


X = torch.randn(12, 6, generator=torch.Generator().manual_seed(5))


class Killed(nn.Module):
    """Dies after some forward passes."""

    def __init__(self, passes: int | None = None) -> None:
        super().__init__()
        self.network, self.left = network(), passes
        self.asked = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.left is not None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
        self.asked += len(x)
        return self.network(x)


@pytest.mark.parametrize("target", [None, 0.1])
def test_a_killed_run_goes_on_to_the_same_votes(tmp_path, monkeypatch, target):
    monkeypatch.setattr(counts_file, "_SECONDS_BETWEEN_SAVES", 0.0)
    path = tmp_path / "deep" / "counts.npz"
    options = {"sigma": 0.5, "n": 600, "seed": 2, "target_radius": target}
    whole = certify(Killed(), X, **options)
    with pytest.raises(KeyboardInterrupt):
        certify(Killed(passes=8), X, path=path, **options)
    second = Killed()
    resumed = certify(second, X, path=path, **options)
    assert torch.equal(whole.counts, resumed.counts)
    assert torch.equal(whole.selection, resumed.selection)
    assert torch.equal(whole.radii, resumed.radii)
    assert second.asked < int(whole.samples.sum())
    assert [file.name for file in path.parent.iterdir()] == ["counts.npz"]


def test_a_finished_run_is_read_back_under_any_bound_and_alpha(tmp_path):
    path = tmp_path / "counts.npz"
    first = certify(Killed(), X, sigma=0.5, n=200, path=path)
    reader = Killed()
    again = certify(reader, X, sigma=0.5, n=200, path=path, bound="renyi", alpha=0.01)
    assert reader.asked == 1  # only to count the classes
    assert torch.equal(again.radii, first.recompute(bound="renyi", alpha=0.01).radii)


@pytest.mark.parametrize("change", [{"sigma": 0.6}, {"n": 300}, {"seed": 9}, {"target_radius": 0.1}])
def test_counts_of_other_settings_are_refused(tmp_path, change):
    path, options = tmp_path / "counts.npz", {"sigma": 0.5, "n": 200}
    certify(network(), X, path=path, **options)
    with pytest.raises(UsageError, match=f"another {next(iter(change))}"):
        certify(network(), X, path=path, **(options | change))


def test_counts_of_another_model_or_other_inputs_are_refused(tmp_path):
    path = tmp_path / "counts.npz"
    certify(network(), X, sigma=0.5, n=200, path=path)
    for model, x in ((network(1), X), (network(), X + 1)):
        with pytest.raises(UsageError, match="another model or inputs"):
            certify(model, x, sigma=0.5, n=200, path=path)


def test_sequential_votes_are_bound_to_what_stopped_them(tmp_path):
    path, options = tmp_path / "counts.npz", {"sigma": 0.5, "n": 1000, "target_radius": 0.1}
    certify(network(), X, path=path, **options)
    with pytest.raises(UsageError, match="another alpha"):
        certify(network(), X, path=path, alpha=0.01, **options)


PEAK = """
import resource, sys, torch
from leakmeter.certificates import certify
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
certify(model, torch.rand(2, 1, 28, 28), sigma=0.5, n=int(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts peak memory the Linux way")
def test_peak_memory_does_not_grow_with_n():
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    few, many = (
        int(subprocess.run([sys.executable, "-c", PEAK, n], capture_output=True, check=True, text=True, env=env).stdout)
        for n in ("500", "20000")
    )
    # Holding every noisy copy would take 20,000 × 784 × 4 bytes = 63 MB for each input.
    assert many - few < 10_000


def test_networks_with_batch_normalisation_are_told_apart_by_every_number():
    normalised, other = (nn.Sequential(network(), nn.BatchNorm1d(3)) for _ in range(2))
    assert counts_file.fingerprint(normalised, X) == counts_file.fingerprint(other, X)
    other[1].num_batches_tracked += 1
    assert counts_file.fingerprint(normalised, X) != counts_file.fingerprint(other, X)
