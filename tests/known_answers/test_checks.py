"""Every check under "Can this audit be believed?" has a victim, or an audit of one, that fails it, and one that passes.

The one that passes is the same for all: a small network that answers what it is asked. Checks whose failure needs a
victim of a kind of its own are failed in the other files here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.known_answers.victims import QUICK, Audit, balanced_net, inputs
from torch import Tensor, nn

from leakmeter.verdict.soundness import soundness

ELSEWHERE = {
    "victim repeatable": "test_answers_at_random_are_not_to_be_believed",
    "answers informative": "test_answers_that_are_all_zero_or_one_say_little",
    "copies beat the control": "test_hashed_labels_are_no_pass",
    "copies beat a constant": "test_a_copy_of_a_majority_is_told_from_a_copy_of_the_model",
    "certificates true": "test_a_trigger_that_no_query_meets_is_no_exact_copy",
}
SHORT: dict[str, Any] = {"seeds": [0], "transfer": {"attack": "pgd", "eps": 0.2}}


class Ends(nn.Module):
    """Breaks down where an input lies in a corner."""

    def forward(self, x: Tensor) -> Tensor:
        return balanced_net(3)(x) / (x[:, :1] < 0.7)


class Corner(nn.Module):
    """Names class 1 in a corner that nobody asks about by chance."""

    def forward(self, x: Tensor) -> Tensor:
        z = 30 * (x.mean(1) - 0.85)
        return torch.stack([-z, z], 1)


class Steps(nn.Module):
    """Looks at its input in steps, so that it has no slope anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.net = balanced_net(3)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.net((16 * x).floor() / 16)
        return z


class Faint(nn.Module):
    """Says in labels what it hardly whispers in probabilities, and whispers something else beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = balanced_net(3)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.sin(1e4 * x).sum(1, keepdim=True) * torch.tensor([1.0, -2.0, 1.0])
        best = nn.functional.one_hot(self.net(x).argmax(1), 3)
        return (noise - noise.amax(1, keepdim=True)) * (1 - best)


def near_corner() -> Tensor:
    x = inputs(300)
    x[:150] = 0.8 + 0.2 * x[:150]
    return x


def few_rows(folder: Path) -> list[dict[str, Any]]:
    np.savez(folder / "pool.npz", x_train=inputs(50, seed=5).numpy(), x_test=inputs(9).numpy())
    return [QUICK | {"pool": str(folder / "pool.npz")}]


BAD: dict[str, Callable[[Audit, Path], Any]] = {
    "all cells finished": lambda audit, _: audit(Ends(), 0.6 * inputs(), seeds=[0]),
    "enough test points": lambda audit, _: audit(balanced_net(3), inputs(99), seeds=[0]),
    "budget spent": lambda audit, folder: audit(balanced_net(3), seeds=[0], attacks=few_rows(folder)),
    "queries diverse": lambda audit, _: audit(Corner(), near_corner(), seeds=[0]),
    "transfer measured": lambda audit, _: audit(balanced_net(3), y=wrong_labels(), **SHORT),
    "more shown, more leaked": lambda audit, _: audit(Faint(), views=["labels", "probs"], seeds=[0]),
    "white box strongest": lambda audit, _: audit(Steps(), **SHORT),
}


def wrong_labels() -> Tensor:
    with torch.no_grad():
        return (balanced_net(3)(inputs()).argmax(1) + 1) % 3


@pytest.mark.parametrize("name", BAD)
def test_the_audit_that_must_fail_a_check_does(name: str, audit: Audit, tmp_path: Path) -> None:
    assert not BAD[name](audit, tmp_path).check(name).ok


def test_a_plain_audit_of_a_plain_network_passes_them_all(audit: Audit) -> None:
    found = audit(balanced_net(3), views=["labels", "probs"], **SHORT)
    assert {check.name: check.message for check in found.verdict.checks if not check.ok} == {}
    assert all(cell.transfer is not None for cell in found.result.cells)


def test_no_check_is_forgotten() -> None:
    names = [check.name for check in soundness([])] + ["white box strongest"]  # only where one was measured
    assert {*names} == {*BAD, *ELSEWHERE}
    others = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert all(f"def {test}(" in others for test in ELSEWHERE.values())
