"""Examples made on the victim itself: once an audit, and again where what was kept is of no use."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from leakmeter._audit import cell
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

SETTINGS = {"norm": "linf", "eps": 0.1, "seed": 0}


@pytest.fixture
def victim() -> Victim:
    torch.manual_seed(0)
    return load_victim(nn.Sequential(nn.Linear(4, 3)), low=0.0, high=1.0, outputs="logits")


def made(victim: Victim, folder: Path, n: int = 6) -> torch.Tensor:
    x = torch.linspace(0, 1, 4 * n).reshape(n, 4)
    examples = cell._on_the_victim(victim, "fgsm", x, torch.zeros(n, dtype=torch.long), folder / "cell", SETTINGS)
    assert examples is not None
    return examples


def test_they_are_made_once_for_all_cells(victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(victim, tmp_path)
    monkeypatch.setattr(cell, "examples_on", None)
    assert torch.equal(made(victim, tmp_path), first)


@pytest.mark.parametrize("damage", [b"", b"no such format", None])
def test_what_was_kept_and_cannot_be_used_is_made_again(victim: Victim, tmp_path: Path, damage: bytes | None) -> None:
    first = made(victim, tmp_path)
    (kept,) = tmp_path.glob("*.safetensors")
    if damage is None:  # of other inputs
        made(victim, tmp_path, n=3)
    else:
        kept.write_bytes(damage)
    assert torch.equal(made(victim, tmp_path), first)
