"""The pages that say how to add something: their code runs as it stands, and what it adds works."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from leakmeter.defenses import DEFENSES, defend, undoing
from leakmeter.errors import UsageError
from leakmeter.oracle.explanations import EXPLANATIONS
from leakmeter.oracle.oracle import Oracle
from leakmeter.registry import Registry
from leakmeter.victims import VICTIMS
from leakmeter.victims.load import load_victim

DOCS = Path(__file__).parents[2] / "docs"
BOX = {"low": 0.0, "high": 1.0}
Add = Callable[[str, Registry], None]


@pytest.fixture
def add(tmp_path, monkeypatch) -> Add:
    """Puts the code of a page where it says it lies, imports it, and forgets it in the end."""

    def run(page: str, registry: Registry) -> None:
        code = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)[1]
        module = re.search(r'"my_package\.(\w+):', code)[1]
        (tmp_path / "my_package").mkdir()
        (tmp_path / "my_package" / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(registry, "_own", dict(registry._own))
        importlib.import_module(f"my_package.{module}")

    yield run
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


def test_an_explanation(add: Add) -> None:
    add("adding-an-explanation.md", EXPLANATIONS)
    layer = nn.Linear(3, 2).double()
    oracle = Oracle(load_victim(layer, **BOX), "logits+leave-one-out:0.5")
    x = torch.rand(5, 3, dtype=torch.float64)
    expected = layer.weight.detach() * (x - 0.5)[:, None, :]
    torch.testing.assert_close(oracle.query(x).gradients, expected)
    entry = oracle.ledger.entry("attack")
    assert (entry.queries, entry.explanations, entry.work) == (5, 5, 20)
    function = load_victim(lambda x: np.stack([x[:, 0], x[:, 1]], 1), input_shape=(2,), **BOX)
    assert Oracle(function, "top:1+leave-one-out").query(torch.rand(4, 2)).gradients.shape == (4, 2, 2)


def test_a_defense(add: Add) -> None:
    add("adding-a-defense.md", DEFENSES)
    victim, x = load_victim(nn.Linear(3, 4).double(), **BOX), torch.rand(6, 3, dtype=torch.float64)
    plain = Oracle(victim, "probs").query(x).probs
    shown = Oracle(defend("tempered:4", victim), "probs").query(x).probs
    torch.testing.assert_close(shown, plain**0.25 / (plain**0.25).sum(1, keepdim=True))
    undo = undoing("tempered:4/adaptive", "probs")
    torch.testing.assert_close(Oracle(defend("tempered:4", victim), "probs", undo=undo).query(x).probs, plain)
    with pytest.raises(UsageError, match="expected TEMPERATURE of tempered:TEMPERATURE above 0, got -1"):
        defend("tempered:-1", victim)


def test_a_kind_of_victim(add: Add, tmp_path) -> None:
    add("adding-a-victim-kind.md", VICTIMS)
    file = tmp_path / "shop.linear.json"
    file.write_text(json.dumps({"weight": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "bias": [0.5, 0.0, -0.5]}))
    victim = load_victim(file, **BOX)
    assert (victim.spec.input_shape, victim.spec.classes, victim.spec.name) == ((2,), 3, str(file))
    x = torch.tensor([[0.25, 0.5]])
    assert Oracle(victim, "logits").query(x).logits.tolist() == [[1.75, 2.75, 3.75]]
    file.write_text("{}")
    with pytest.raises(UsageError, match="expected weight and bias in"):
        load_victim(file, **BOX)
    with pytest.raises(UsageError, match=r"a \.linear\.json file as the victim, got 'nothing'"):
        load_victim("nothing")
