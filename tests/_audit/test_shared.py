"""Cells that ask the same have it computed once; what they get and what they pay does not tell."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.errors import Stopped
from leakmeter.results import AuditResult
from leakmeter.victims import shared

VIEWS = ["probs", "labels"]
PLAN = {
    "victim": {"source": "here"},
    "data": {"name": "digits", "limit": 60},
    "views": VIEWS,
    "budget": 300,
    "stops": [300],
    "seeds": [0],
    "detectors": [],
    "attacks": [{"name": "surrogate", "student": "linear", "pool": "gaussian", "recipe": {"steps": 20}}],
}


class Net(nn.Module):
    """Counts the rows it computes; stops the audit at the call named."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.rows, self.calls, self.last = nn.Linear(64, 10), 0, 0, last

    def forward(self, x: Tensor) -> Tensor:
        self.rows, self.calls = self.rows + len(x), self.calls + 1
        if self.calls == self.last:
            raise KeyboardInterrupt
        return self.layer(x.flatten(1))


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_WORTH", 0.0)


def audit(net: Net, out: Path, **more) -> AuditResult:
    victim = lm.load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)
    net.rows = net.calls = 0
    return lm.audit({**PLAN, **more.pop("plan", {})}, victim=victim, out=out, **more)


def weights(result: AuditResult) -> list[dict[str, Tensor]]:
    paths = sorted(result.folder.glob("cells/*/substitute.safetensors"))
    return [safetensors.torch.load(path.read_bytes()) for path in paths]


def alike(one: AuditResult, two: AuditResult) -> bool:
    pairs = list(zip(weights(one), weights(two), strict=True))
    same = all(torch.equal(a[key], b[key]) for a, b in pairs for key in a)
    return len(pairs) > 0 and same and [cell.curve for cell in one.cells] == [cell.curve for cell in two.cells]


def test_what_two_views_ask_is_computed_once_and_paid_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    together = audit(net, tmp_path / "together")
    computed = net.rows
    monkeypatch.setattr(shared, "_WORTH", float("inf"))
    apart = audit(net, tmp_path / "apart")
    assert net.rows - computed == 44  # of 256 and 44 rows the first piece is computed to compare
    assert alike(together, apart)
    assert [cell.spending for cell in together.cells] == [cell.spending for cell in apart.cells]
    assert [cell.spending.queries for cell in together.cells if cell.spending] == [300, 300]
    assert not (together.folder / "cells" / "shared").exists()


def test_a_killed_audit_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = audit(net := Net(), tmp_path / "whole")
    for last in range(2, net.calls + 1):
        with pytest.raises(Stopped) as stopped:
            audit(Net(last), tmp_path / f"{last}")
        again = audit(Net(), tmp_path / f"{last}", resume=stopped.value.folder)
        assert alike(again, whole)
        queries = [cell.spending.queries for cell in again.cells if cell.spending]
        assert queries == [300, 300]
        assert not (again.folder / "cells" / "shared").exists()


class Wavering(Net):
    """Adds random numbers that no seed of ours decides."""

    own = torch.Generator().manual_seed(7)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.rand(len(x), 10, generator=self.own)


def test_whether_answers_repeat_is_seen_by_every_cell(tmp_path: Path) -> None:
    assert [cell.repeatable for cell in audit(Wavering(), tmp_path / "wavering").cells] == [False, False]
    assert [cell.repeatable for cell in audit(Net(), tmp_path / "steady").cells] == [True, True]
