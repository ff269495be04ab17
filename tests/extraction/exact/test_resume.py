"""A search that is killed goes on from the answers it has: none is paid for twice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.extraction.base import Extraction
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.studies.ours.exact_depth import deep_network


class Counted(nn.Module):
    """Counts the rows it answers; dies when they are too many."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.rows, self.most = net, 0, 10**9

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        if self.rows + len(x) > self.most:
            raise KeyboardInterrupt
        self.rows += len(x)
        return self.net(x)


def run(net: Counted, folder: Path, budget: int, attack: str, view: str) -> tuple[Extraction, int]:
    """One process: what it found, and what was paid so far."""
    rows = net.rows
    victim = lm.load_victim(net, input_shape=(8,), low=None, high=None, outputs="logits")
    net.rows = rows  # what loading asks is no part of the search
    folder.mkdir(exist_ok=True)
    ledger = Ledger(folder / "ledger.sqlite", budget=budget)
    try:
        oracle = lm.Oracle(victim, view, ledger=ledger, log=AnswerLog(folder / "answers"))
        return lm.extract(attack, oracle, seed=0), ledger.spent()
    finally:
        ledger.close()


@pytest.mark.parametrize(
    ("attack", "view", "budget"), [("exact", "logits+gradient", 2000), ("exact-values", "logits", 8000)]
)
def test_a_killed_search_pays_nothing_twice(tmp_path: Path, attack: str, view: str, budget: int) -> None:
    net = Counted(deep_network((8, 5, 4, 2), seed=1))
    whole, paid = run(net, tmp_path / "whole", budget, attack, view)
    answered, net.rows = net.rows, 0
    assert whole.findings.exact
    for share in (0.3, 0.7):
        net.most = int(share * paid)
        with pytest.raises(KeyboardInterrupt):
            run(net, tmp_path / "killed", budget, attack, view)
    net.most = 10**9
    again, _ = run(net, tmp_path / "killed", budget, attack, view)
    assert net.rows <= answered + 64, "only the batches that were under way were begun twice"
    assert again.findings.exact
    x = torch.randn(100, 8).double()
    # not bit for bit: linear algebra rounds by where its arrays lie in memory, so two runs in one process differ too
    assert torch.allclose(again.substitute(x), whole.substitute(x), rtol=0, atol=1e-12)
