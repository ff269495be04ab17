"""Lee et al.'s perturbation, and what an attacker who knows it gets back."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from leakmeter.defenses.reverse_sigmoid import ReverseSigmoid
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View


def answers(scale: float, n: int = 200, classes: int = 10) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return (scale * torch.randn(n, classes, generator=generator, dtype=torch.float64)).softmax(1)


def change(defense: ReverseSigmoid, probs: Tensor) -> Tensor:
    return defense.change(probs, torch.Generator())


def undone(defense: ReverseSigmoid, shown: Tensor) -> Tensor:
    return defense.undo(Answer(View("probs"), shown.shape[1], {"probs": shown})).probs


def variation(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).abs().sum(1) / 2


def test_formula_by_hand() -> None:
    beta, gamma, probs = 0.7, 0.2, [0.9, 0.08, 0.02]
    raw = [y - beta * (1 / (1 + math.exp(-gamma * math.log(y / (1 - y)))) - 0.5) for y in probs]
    shown = change(ReverseSigmoid(beta, gamma), torch.tensor([probs], dtype=torch.float64))
    assert shown[0].tolist() == pytest.approx([each / sum(raw) for each in raw], rel=1e-12)


@pytest.mark.parametrize("top", [0.9, 0.999, 1 - 1e-7, 1.0])
def test_the_top_class_is_perturbed_however_sure_it_is(top: float) -> None:
    probs = torch.tensor([[top, 1 - top]], dtype=torch.float64)
    shown = change(ReverseSigmoid(0.7, 0.2), probs)
    assert top - shown[0, 0].item() > 0.05


@given(st.floats(0.501, 1), st.floats(0.05, 1), st.floats(0.05, 0.99), st.integers(2, 8))
def test_a_label_above_one_half_is_kept(top: float, beta: float, gamma: float, classes: int) -> None:
    for rest in (
        torch.full((classes - 1,), (1 - top) / (classes - 1)),
        torch.tensor([1 - top] + [0.0] * (classes - 2)),
    ):
        probs = torch.cat([rest.double(), torch.tensor([top], dtype=torch.float64)])[None]
        assert change(ReverseSigmoid(beta, gamma), probs).argmax() == classes - 1


def test_a_label_below_one_half_can_change() -> None:
    probs = torch.tensor([[0.15] + [0.1] * 8 + [0.05, 1e-12]], dtype=torch.float64)
    assert change(ReverseSigmoid(0.7, 0.2), probs).argmax() == 10


@pytest.mark.parametrize("scale", [1.0, 3.0, 8.0])
def test_a_mild_defense_is_undone_exactly(scale: float) -> None:
    probs, defense = answers(scale), ReverseSigmoid(0.2, 0.9)
    shown = change(defense, probs).float()
    assert variation(shown.double(), probs).mean() > 0.15
    assert variation(undone(defense, shown).double(), probs).max() < 1e-3


def test_a_strong_defense_is_undone_in_part_where_the_model_is_confident() -> None:
    probs, defense = answers(8.0), ReverseSigmoid(0.7, 0.2)
    shown = change(defense, probs).float()
    left = variation(undone(defense, shown).double(), probs)
    assert variation(shown.double(), probs).mean() > 0.6
    assert left.mean() < 0.2
    assert (left < 0.01).double().mean() > 0.4


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_what_is_read_would_have_been_shown_where_it_fits(scale: float) -> None:
    defense = ReverseSigmoid(0.5, 0.5)
    shown = change(defense, answers(scale, classes=3))
    again = variation(change(defense, undone(defense, shown)), shown)
    assert again.median() < 1e-3


def test_reading_is_a_distribution_whatever_was_shown() -> None:
    shown = torch.tensor([[1.0, 0.0, 0.0], [0.34, 0.33, 0.33], [0.5, 0.5, 0.0]])
    read = undone(ReverseSigmoid(0.9, 0.1), shown)
    assert (read >= 0).all()
    assert torch.allclose(read.sum(1), torch.ones(3))
