"""Explanations compared on an owner's own model: what each costs, what cannot be shown, and what cannot be asked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.errors import UsageError


def shop() -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    return lm.load_victim(net, input_shape=(6,), low=-1.0, high=1.0)


def plan(folder: Path, *explanations: str) -> dict[str, Any]:
    x = 2 * torch.rand(200, 6, generator=torch.Generator().manual_seed(1)) - 1
    np.savez(folder / "x.npz", x=x.numpy(), y=shop().white_box(x).argmax(1).numpy())
    recipe = {"steps": 40, "batch": 16, "lr": 0.02}
    attacks = [{"name": name, "recipe": recipe} for name in ("surrogate", "gradients", "counterfactual")]
    return {
        "victim": {"source": "handed in"},
        "views": ["probs"],
        "explanations": explanations,
        "attacks": attacks,
        "budget": 16,
        "stops": [4, 16],
        "data": {"name": str(folder / "x.npz")},
    }


def test_the_verdict_says_what_each_costs_and_why_one_was_not_measured(tmp_path: Path) -> None:
    asked = plan(tmp_path, "gradient", "reasons:2", "counterfactual", "gradcam")
    found = lm.audit(asked, victim=shop(), out=tmp_path / "runs")
    lines = "\n".join(found.verdict.sentences)
    for explanation in ("gradient", "reasons:2", "counterfactual"):
        assert f"Showing {explanation} ma" in lines
    assert "Showing gradcam was not measured: the explanation gradcam needs pictures" in lines
    entry = next(cell for cell in found.cells if cell.view == "probs+gradient" and cell.status == "done")
    assert entry.spending.explanations == 16


@pytest.mark.parametrize(
    ("explanation", "sentence"),
    [
        ("reasons:7", "K at most 6"),
        ("integrated:5,3", "a baseline inside the box, from -1 to 1, got 3"),
        ("gradient/top:7", "K at most 6 features"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_first_query(
    tmp_path: Path, explanation: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        lm.audit(plan(tmp_path, explanation), victim=shop(), out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
