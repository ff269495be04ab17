"""Appendix C: lemmas 7 to 9, and Algorithm 1-MQ where the arithmetic can carry it."""

import pytest
import torch
from torch import Tensor

import leakmeter as lm
from leakmeter.extraction.exact.paper import PaperFailure, SearchRange
from leakmeter.extraction.exact.paper_values import check_step, estimate_gradient, step_size


def unit_rows(h: int, d: int, seed: int = 0) -> Tensor:
    rows = torch.randn(h, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)


A = unit_rows(5, 4)
W = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0]).double()


def f(x: Tensor) -> Tensor:
    return torch.relu(x @ A.T) @ W


def gradient(x: Tensor) -> Tensor:
    return ((A @ x > 0) * W) @ A


def points(n: int) -> Tensor:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def test_lemma_7_inside_one_cell_estimates_are_gradients() -> None:
    seen = 0
    for x in points(200):
        moved = x + 0.05 * torch.eye(4, dtype=torch.float64)
        if len({tuple((row > 0).tolist()) for row in torch.cat([x[None], moved]) @ A.T}) == 1:
            seen += 1
            assert torch.allclose(estimate_gradient(f, x, 0.05), gradient(x), atol=1e-12)
    assert seen > 50


def test_lemma_8_a_distance_of_s_to_all_hyperplanes_is_enough() -> None:
    checked = 0
    for x in points(300):
        s = float((A @ x).abs().min())
        if s > 1e-3:
            checked += 1
            assert torch.allclose(estimate_gradient(f, x, s), gradient(x), atol=1e-10)
    assert checked > 250


def test_lemma_9_all_estimates_on_the_grid_are_exact_with_the_promised_probability() -> None:
    reach, epsilon, s = 4.0, 0.05, 1e-4
    generator, wrong, lines = torch.Generator().manual_seed(0), 0, 400
    steps = torch.arange(-int(reach / epsilon), int(reach / epsilon) + 1)
    for _ in range(lines):
        u, v = torch.randn(2, 4, generator=generator, dtype=torch.float64)
        grid = u + (epsilon * steps)[:, None] * v
        wrong += bool(((grid @ A.T).abs() < s).any())
    assert wrong / lines <= 2 * reach * len(A) * s / epsilon


def test_theorem_4_sets_the_step_from_the_search() -> None:
    search = SearchRange(4, 0.25, 0.5)
    s = step_size(search, 0.5)
    assert (1 - 0.25) * (1 - 2 * search.reach * 4 / search.epsilon * s) >= 1 - 0.5 - 1e-12


def test_steps_the_arithmetic_cannot_resolve_are_declared() -> None:
    search = SearchRange(64, 0.05, 0.5)
    with pytest.raises(PaperFailure, match="cannot resolve"):
        check_step(step_size(search, 0.1), search.reach, 2.2e-16)


def test_algorithm_1_mq_recovers_a_small_network(network, without_biases, oracle) -> None:
    x, recovered = torch.randn(200, 6, dtype=torch.float64), 0
    for seed in range(4):
        net = without_biases(network(3, 6, seed=seed))
        try:
            copy = lm.extract("exact-values", oracle(net, "logits", 6), method="paper", h=3, delta=0.4, seed=seed)
        except PaperFailure:
            continue
        recovered += 1
        assert torch.allclose(copy.substitute(x), net(x), atol=1e-5)
    assert recovered >= 2
