"""Explanations by name, protections in their order, and who may not be explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from leakmeter.errors import UsageError
from leakmeter.oracle.explanations import EXPLANATIONS, PROTECTIONS
from leakmeter.oracle.explanations.base import Explanation, Protection
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.victims.load import load_victim


@dataclass(frozen=True)
class Times(Protection):
    name: ClassVar[str] = "times"
    factor: float

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:
        return explanation * self.factor


@dataclass(frozen=True)
class Plus(Protection):
    name: ClassVar[str] = "plus"
    steps: int = 1

    def protect(self, explanation: Tensor, noise: torch.Generator) -> Tensor:
        return explanation + self.steps


@pytest.fixture
def protections(monkeypatch) -> None:
    monkeypatch.setattr(PROTECTIONS, "_own", {name: f"{__name__}:{name.title()}" for name in ("times", "plus")})


@pytest.mark.parametrize("name", list(EXPLANATIONS))
def test_every_registered_explanation_goes_by_its_name(name: str) -> None:
    assert issubclass(EXPLANATIONS[name], Explanation)
    assert View.parse(f"probs+{name}").explained.partition(":")[0] == EXPLANATIONS[name].name == name


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("probs+smoothgrad", "probs+smoothgrad:10,0.1"),
        ("top:3+smoothgrad:5,1e-1", "top:3+smoothgrad:5,0.1"),
        ("logits+gradient", "logits+gradient"),
        ("logits+gradient/times:2/plus", "logits+gradient/times:2.0/plus:1"),
    ],
)
def test_one_way_to_write_each(text: str, canonical: str, protections) -> None:
    view = View.parse(text)
    assert str(view) == canonical
    assert View.parse(canonical) == view


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("probs+gradeint", "unknown explanation 'gradeint'; did you mean 'gradient'"),
        ("probs+gradient:3", "expected the explanation gradient, got 'gradient:3'"),
        ("probs+smoothgrad:2.5", "expected whole numbers in 'smoothgrad:2.5'"),
        ("probs+smoothgrad:0", "a sample or more"),
        ("probs+gradient/tiems:2", "unknown protection 'tiems'; did you mean 'times'"),
        ("probs+gradient/times", "expected the protection times:FACTOR, got 'times'"),
    ],
)
def test_mistakes_are_named(text: str, sentence: str, protections) -> None:
    with pytest.raises(UsageError, match=sentence):
        View.parse(text)


def test_protections_are_applied_in_their_order(protections) -> None:
    layer = nn.Linear(3, 2).double()
    victim, x = load_victim(layer, low=0.0, high=1.0), torch.rand(4, 3, dtype=torch.float64)
    for text, expected in {"times:2/plus:3": 2 * layer.weight + 3, "plus:3/times:2": 2 * (layer.weight + 3)}.items():
        shown = Oracle(victim, f"logits+gradient/{text}").query(x).gradients
        torch.testing.assert_close(shown, expected.detach().expand(4, 2, 3))


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor made."""

    numel = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        sizes = [
            each.numel() for each in (made if isinstance(made, tuple | list) else (made,)) if torch.is_tensor(each)
        ]
        self.numel = max(self.numel, *sizes, 0) if sizes else self.numel
        return made


@pytest.mark.parametrize("name", [each for each in EXPLANATIONS if each != "gradcam"])
def test_no_method_holds_more_than_one_batch_of_jacobians(name: str) -> None:
    """Whatever it averages over: gradients, orders, neighbours or candidates."""
    features, classes, rows = 12, 5, 8
    victim = load_victim(nn.Linear(features, classes), input_shape=(features,), low=0.0, high=1.0)
    victim.batch = rows
    many = {"smoothgrad": ":50,0.1", "integrated": ":50", "shap": ":20", "lime": ":200"}.get(name, "")
    with Largest() as largest:
        Oracle(victim, f"probs+{name}{many}").query(torch.rand(rows, features))
    asked = {"counterfactual": 80 * rows * features, "lime": 200 * rows * classes}  # candidates; answers to be fitted
    assert largest.numel <= max(rows * classes * (features + 1), asked.get(name, 0))
