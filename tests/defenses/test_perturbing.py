"""MAD, Adaptive Misinformation, ModelGuard and repeatable noise: what defines each, against something independent."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from leakmeter.defenses import defend, parse
from leakmeter.defenses.mad import Mad, MadArgmax
from leakmeter.defenses.misinformation import Misinformation
from leakmeter.defenses.modelguard_s import codebook
from leakmeter.defenses.shadow import shadow_answers
from leakmeter.oracle.oracle import Oracle


def draws(rows: int = 60, classes: int = 5) -> Tensor:
    return shadow_answers(rows, classes, torch.Generator().manual_seed(7))


def shown(text: str, probs: Tensor) -> Tensor:
    return parse(text)[0].change(probs, torch.Generator().manual_seed(0))


def last_layer_gradient(answer: Tensor) -> Tensor:
    """Of an untrained network (even answers) on fixed features, by autograd."""
    features = torch.arange(1.0, 4.0, dtype=torch.float64)
    weights = torch.zeros(len(answer), 3, dtype=torch.float64, requires_grad=True)
    (answer * (weights @ features).log_softmax(0)).sum().backward()
    assert weights.grad is not None
    return weights.grad.flatten()


def angle(one: Tensor, other: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0).clamp(-1, 1).acos())


def corners(classes: int, keep: int | None) -> list[Tensor]:
    """Extreme points of the simplex, or of the answers on it that name class `keep`."""
    sets = [(j,) for j in range(classes)]
    if keep is not None:
        others = [j for j in range(classes) if j != keep]
        sets = [(keep, *more) for size in range(classes - 1) for more in combinations(others, size)]
    even = torch.zeros(len(sets), classes, dtype=torch.float64)
    for row, members in zip(even, sets, strict=True):
        row[list(members)] = 1 / len(members)
    return list(even)


@pytest.mark.parametrize(("defense", "keeps"), [(Mad(0.5), False), (MadArgmax(0.5), True)])
def test_mad_goes_to_the_corner_whose_gradient_deviates_most(defense: Mad, keeps: bool) -> None:
    probs = draws(20)
    for y, extreme in zip(probs, defense.extreme(probs), strict=True):
        true = last_layer_gradient(y)
        best = max(angle(last_layer_gradient(each), true) for each in corners(5, int(y.argmax()) if keeps else None))
        assert angle(last_layer_gradient(extreme), true) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("text", ["mad", "mad-argmax"])
def test_mad_keeps_its_distance_and_turns_further_with_more(text: str) -> None:
    probs = draws()
    turned = []
    for epsilon in (0.2, 0.6, 1.2):
        answer = shown(f"{text}:{epsilon}", probs)
        assert ((answer - probs).abs().sum(1) <= epsilon + 1e-9).all()
        turned.append(torch.tensor([angle(a - 0.2, y - 0.2) for a, y in zip(answer, probs, strict=True)]))
    assert (turned[0] > 0).all()
    assert (turned[0] <= turned[1] + 1e-9).all()
    assert (turned[1] <= turned[2] + 1e-9).all()


def test_modelguard_w_is_the_least_true_answer_within_its_bound() -> None:
    probs, epsilon = draws(30), 0.6
    answer = shown(f"modelguard-w:{epsilon}", probs)
    cost = probs.clamp_min(1e-6).log()
    assert ((answer - probs).abs().sum(1) <= epsilon + 1e-6).all()
    assert torch.equal(answer.argmax(1), probs.argmax(1))
    rng = np.random.default_rng(0)
    others = torch.from_numpy(rng.dirichlet(np.full(5, 0.5), 20_000))
    for y, log, found in zip(probs, cost, answer, strict=True):
        near = others * 0.3 + y * 0.7  # within 0.6 of y
        near = near[near.argmax(1) == y.argmax()]
        assert len(near) > 100
        assert (near @ log).min() >= found @ log - 1e-6


def test_modelguard_w_by_hand() -> None:
    """All that the distance allows goes from the likeliest class to the least likely."""
    y = torch.tensor([[0.9, 0.06, 0.03, 0.01]], dtype=torch.float64)
    expected = torch.tensor([[0.7, 0.06, 0.03, 0.21]], dtype=torch.float64)
    assert torch.allclose(shown("modelguard-w:0.4", y), expected, atol=1e-7)


def test_modelguard_s_shows_few_answers_within_its_bound() -> None:
    probs = draws(2000)
    for epsilon in (0.5, 1.0):
        answer = shown(f"modelguard-s:{epsilon}", probs)
        assert ((answer - probs).abs().sum(1) <= epsilon + 1e-9).all()
        words = len(answer.mul(1e9).round().unique(dim=0))
        assert words <= 5 * len(codebook(epsilon, 5)) + 20
    assert words < 40


def test_modelguard_s_takes_the_first_codeword_that_is_near_enough() -> None:
    code = codebook(0.7, 4)
    y = draws(200, 4)
    y = y[y.argmax(1) == 0]
    answer = shown("modelguard-s:0.7", y)
    for row, found in zip(y, answer, strict=True):
        near = [word for word in code if (word - row).abs().sum() <= 0.7]
        if near:
            assert torch.allclose(found, near[0], atol=1e-12)
    distance = (code[:, None] - code).abs().sum(2)
    assert (distance[~torch.eye(len(code), dtype=torch.bool)] > 0.7).all()


def test_misinformation_tells_the_truth_when_sure_and_never_otherwise(echo) -> None:
    probs = draws(300).float()
    answer = Oracle(defend("misinformation:0.6", echo()), "probs").query(probs).probs
    sure, unsure = probs.amax(1) > 0.62, probs.amax(1) < 0.58
    assert torch.allclose(answer[sure], probs[sure], atol=1e-6)
    assert (answer.argmax(1) != probs.argmax(1))[unsure].all()
    assert unsure.sum() > 20


def test_misinformation_is_a_function_of_the_input(echo) -> None:
    probs = draws(50).float()
    oracle = Oracle(defend("misinformation:1", echo()), "probs")
    assert torch.equal(oracle.query(probs).probs, oracle.query(probs).probs)
    highest, second = probs.topk(2).values.T
    probs = probs[(highest - second > 0.01) & (highest < 0.99)]  # away from where the label or the truth changes over
    assert (oracle.query(probs + 1e-4).probs - oracle.query(probs).probs).abs().max() < 0.01
    flat = torch.full((1, 5), 0.2, dtype=torch.float64)
    scores = torch.tensor([[9.0, 0.0, 1.0, 2.0, 0.0]], dtype=torch.float64)
    assert Misinformation(0.9).mixed(flat, scores).argmax() == 3  # class 0 is the label, and barred


def test_noise_repeats_with_the_input_and_only_with_it(echo) -> None:
    probs = draws(40).float()
    oracle = Oracle(defend("repeatable-noise:0.1", echo()), "probs")
    first = oracle.query(probs).probs
    assert torch.equal(first, oracle.query(probs).probs)
    assert torch.equal(first.flip(0), oracle.query(probs.flip(0)).probs)
    assert not torch.equal(first, oracle.query(probs * (1 + 1e-6)).probs)
    flat = torch.full((2000, 5), 0.2) + 1e-6 * torch.arange(2000.0)[:, None]
    assert (oracle.query(flat).probs - 0.2).std().item() == pytest.approx(0.1, rel=0.15)
