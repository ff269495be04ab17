"""The paper's lemmas, one by one, and what its algorithm declares when its assumptions fail."""

import math

import pytest
import torch
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.errors import UsageError
from leakmeter.extraction.exact.chebyshev import chebyshev_center, query_points
from leakmeter.extraction.exact.paper import PaperFailure, SearchRange, recover_s, recover_z


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit_rows(h: int, d: int, seed: int = 0) -> Tensor:
    rows = torch.randn(h, d, generator=generator(seed), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)


def change_points(A: Tensor, n: int) -> Tensor:
    """t with <A_i, u + t v> = 0 for n random lines, [n, h]."""
    u, v = torch.randn(2, n, A.shape[1], generator=generator(1), dtype=torch.float64)
    return -(u @ A.T) / (v @ A.T)


def gradient_of(A: Tensor, w: Tensor):
    return lambda x: ((A @ x > 0) * w) @ A


def test_lemma_1_well_separated_change_points_give_every_row_up_to_sign() -> None:
    A, w = unit_rows(6, 10), torch.randn(6, generator=generator(2), dtype=torch.float64)
    Z = recover_z(gradient_of(A, w), 10, SearchRange(6, 0.2, 0.2), generator(3), 1e-9)
    cosine = (Z / Z.norm(dim=1, keepdim=True)) @ A.T
    match = cosine.abs().argmax(1)
    assert sorted(match.tolist()) == list(range(6))
    assert torch.allclose(cosine.abs().amax(1), torch.ones(6).double())
    assert torch.allclose(Z.norm(dim=1), w.abs()[match])


@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_lemma_2_change_points_are_rarely_close(overlap: float, epsilon: float) -> None:
    a = torch.zeros(5, dtype=torch.float64)
    a[0] = 1
    b = torch.zeros(5, dtype=torch.float64)
    b[0], b[1] = overlap, math.sqrt(1 - overlap**2)
    t = change_points(torch.stack([a, b]), 40_000)
    close = ((t[:, 0] - t[:, 1]).abs() <= epsilon).double().mean().item()
    assert 0 < close <= 3 ** (4 / 3) * (epsilon / (1 - overlap)) ** (2 / 3)


@pytest.mark.parametrize("reach", [2.0, 10.0, 50.0])
def test_lemma_3_change_points_rarely_lie_far_out(reach: float) -> None:
    n = 200_000
    beyond = (change_points(unit_rows(1, 5), n).abs() >= reach).double().mean().item()
    exact = 1 - 2 / math.pi * math.atan(reach)
    assert exact <= 2 / (math.pi * reach)
    assert beyond == pytest.approx(exact, abs=5 * math.sqrt(exact / n))


def test_theorem_2_sets_range_and_resolution_so_that_failures_stay_below_delta() -> None:
    search, h = SearchRange(8, 0.2, 0.3), 8
    t = change_points(unit_rows(h, 40), 3000)
    spacing = t.sort(1)[0].diff(dim=1).amin(1)
    failed = (spacing < search.epsilon) | (t.abs().amax(1) > search.reach)
    assert failed.double().mean().item() <= 0.2
    bound = 3 ** (4 / 3) * (search.epsilon / 0.3) ** (2 / 3) * h**2 + 2 * h / (math.pi * search.reach)
    assert bound == pytest.approx(0.2)


def test_lemma_4_points_of_one_cell_make_the_system_for_the_signs_full_rank() -> None:
    A = unit_rows(8, 20)
    X = query_points(A, torch.rand(20, generator=generator(5), dtype=torch.float64))
    assert X is not None
    assert len({tuple((A @ x > 0).tolist()) for x in X.T}) == 1
    on, off = torch.relu(A @ X).T, torch.relu(-A @ X).T
    M = torch.cat([torch.cat([on, off], dim=1), torch.cat([off, on], dim=1)])
    assert torch.linalg.matrix_rank(A @ X) == 8
    assert torch.linalg.matrix_rank(M) == 16


def test_the_ball_lies_inside_the_cell_and_the_box_and_no_larger_one_does() -> None:
    Z = unit_rows(5, 6) * torch.tensor([0.1, 1.0, 3.0, 0.5, 2.0])[:, None].double()
    v = torch.rand(6, generator=generator(1), dtype=torch.float64)
    ball = chebyshev_center(Z, v)
    assert ball is not None
    center, radius = ball
    distance = (torch.sign(Z @ v) * (Z @ center)) / Z.norm(dim=1)
    walls = torch.cat([distance, center, 1 - center])
    assert walls.min() == pytest.approx(radius, rel=1e-6)
    assert (walls < radius * (1 + 1e-6)).sum() > 1  # it touches several


def test_the_program_as_printed_would_leave_the_cell() -> None:
    """(z^T y + r) sgn(z^T v) >= 0 lets r grow for positive signs and ignores the length of z."""
    z, v = torch.tensor([[2.0, -1.0]]).double(), torch.tensor([1.0, 0.5]).double()
    y, r = torch.tensor([0.0, 1.0]).double(), 5.0
    assert ((z @ y + r) * torch.sign(z @ v) >= 0).all()
    assert (z @ y * torch.sign(z @ v) < 0).all()


def run(net: nn.Module, oracle, d: int, **options: object):
    door = oracle(net, "logits+gradient", d)
    return lm.extract("exact", door, method="paper", **options), door


@pytest.mark.parametrize("seed", range(3))
def test_algorithm_1_recovers_the_network_or_says_that_it_failed(seed: int, network, without_biases, oracle) -> None:
    net = without_biases(network(8, 12, seed=seed))
    x = torch.randn(500, 12, dtype=torch.float64)
    try:
        copy, door = run(net, oracle, 12, h=8, seed=seed)
    except PaperFailure:
        pytest.skip("a declared failure, which the paper allows with probability delta")
    assert torch.allclose(copy.substitute(x), net(x), rtol=1e-9, atol=1e-9)
    assert copy.findings.certificate.exact
    search = SearchRange(8, 0.1, 0.5)
    assert door.ledger.spent() <= 2 + 8 * (1 + math.log2(2 * search.reach / search.epsilon)) + 16


def duplicated(net: nn.Sequential) -> None:
    net[0].weight[1] = net[0].weight[0]


def collinear(net: nn.Sequential) -> None:
    net[0].weight[1] = -net[0].weight[0]


def with_bias(net: nn.Sequential) -> None:
    net[0].bias += 1


@pytest.mark.parametrize("spoil", [duplicated, collinear, with_bias])
def test_broken_assumptions_are_declared(spoil, network, without_biases, oracle) -> None:
    net = without_biases(network(6, 10))
    with torch.no_grad():
        spoil(net)
    with pytest.raises(PaperFailure):
        run(net, oracle, 10, h=6)


@pytest.mark.parametrize(("told", "message"), [(5, "more than"), (7, "6 of 7")])
def test_a_wrong_number_of_units_is_declared(told: int, message: str, network, without_biases, oracle) -> None:
    with pytest.raises(PaperFailure, match=message):
        run(without_biases(network(6, 10)), oracle, 10, h=told)


def test_dependent_rows_are_declared() -> None:
    A, w = unit_rows(8, 5), torch.ones(8, dtype=torch.float64)
    with pytest.raises(PaperFailure, match="dependent"):
        recover_s(lambda x: torch.relu(x @ A.T) @ w, A, generator())


def test_an_ended_budget_is_declared(network, without_biases, oracle) -> None:
    with pytest.raises(PaperFailure, match="budget"):
        lm.extract(
            "exact", oracle(without_biases(network(6, 10)), "logits+gradient", 10, budget=30), method="paper", h=6
        )


def test_what_the_paper_cannot_do_is_refused(network, oracle) -> None:
    net = network(6, 10)
    with pytest.raises(UsageError, match="h="):
        run(net, oracle, 10)
    with pytest.raises(UsageError, match="without limits"):
        lm.extract("exact", oracle(net, "logits+gradient", 10, box=True), method="paper", h=6)
    with pytest.raises(UsageError, match="one logit"):
        lm.extract("exact", oracle(network(6, 10, 3), "logits+gradient", 10), method="paper", h=6)
