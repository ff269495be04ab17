"""The first attack end to end on digits: a good pool copies, noise copies less, a seed decides everything."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from leakmeter.box import Box
from leakmeter.data.catalogue import load
from leakmeter.data.dataset import Dataset
from leakmeter.errors import UsageError
from leakmeter.extraction.base import AttackJob, Extraction, extract
from leakmeter.extraction.pool import gaussian
from leakmeter.extraction.procedural import Procedural
from leakmeter.extraction.surrogate import Surrogate
from leakmeter.oracle.oracle import Oracle
from leakmeter.runs.run import Run
from leakmeter.seeds import stream
from leakmeter.training.loop import Batch, Recipe, fit
from leakmeter.victims.load import load_victim
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

QUICK = {"student": "mlp:64", "recipe": Recipe(steps=300, batch=100, lr=5e-3, schedule="cyclic")}


@pytest.fixture(scope="module")
def train() -> Dataset:
    return load("digits", "train")


@pytest.fixture(scope="module")
def test() -> Dataset:
    return load("digits", "test")


@pytest.fixture(scope="module")
def victim(train: Dataset) -> Victim:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    fit(net, train.labelled(), loss, Recipe(steps=300, batch=100, lr=5e-3, schedule="cyclic"), seed=0)
    return load_victim(net, input_shape=(1, 8, 8), low=0.0, high=1.0)


def weights(result: Extraction) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in result.substitute.parameters()])


@pytest.mark.parametrize(("view", "enough"), [("probs", 0.95), ("top:3", 0.93), ("labels", 0.90)])
def test_the_victims_own_data_copies_it(victim: Victim, test: Dataset, view: str, enough: float) -> None:
    oracle = Oracle(victim, view, budget=1400)
    result = extract("surrogate", oracle, pool="digits", test=test, stops=[100], **QUICK)
    few, all_ = (point.score for point in result.curve)
    assert [point.queries for point in result.curve] == [100, 1400]
    assert all_.fidelity > enough
    assert all_.accuracy > 0.9 * all_.victim_accuracy
    assert few.fidelity < all_.fidelity
    assert result.untrained.fidelity < 0.4
    assert oracle.ledger.spent() == 1400
    assert result.notes["pool"] == 1438


def test_noise_copies_less_than_data(victim: Victim, test: Dataset) -> None:
    scores = [
        extract("surrogate", Oracle(victim, budget=1000), pool=pool, test=test, **QUICK).curve[-1].score
        for pool in ("digits", "gaussian")
    ]
    assert scores[0].fidelity_interval.low > scores[1].fidelity_interval.high


def test_a_seed_decides_every_bit_and_the_global_state_nothing(victim: Victim) -> None:
    def copy(seed: int, disturb: int) -> Tensor:
        torch.manual_seed(disturb)
        before = torch.get_rng_state()
        made = weights(extract("surrogate", Oracle(victim, budget=200), seed=seed, pool="digits", **QUICK))
        assert torch.equal(before, torch.get_rng_state())
        return made

    first = copy(1, disturb=10)
    assert torch.equal(first, copy(1, disturb=20))
    assert not torch.equal(first, copy(2, disturb=10))


def test_a_finished_run_repeats_itself_for_free(victim: Victim, tmp_path) -> None:
    def go(run: Run | None) -> tuple[Tensor, int]:
        ledger, log = (run.ledger(300), run.answers()) if run else (None, None)
        oracle = Oracle(victim, budget=300, ledger=ledger, log=log)
        checkpoints = run.checkpoint if run else None
        made = extract("surrogate", oracle, seed=3, stops=[100], checkpoints=checkpoints, **QUICK)
        return weights(made), oracle.ledger.spent()

    plain, spent = go(None)
    run = Run.enter(tmp_path / "run", {"name": "x"})
    for _ in range(2):
        again, spent_again = go(run)
        assert torch.equal(plain, again)
        assert spent_again == spent == 300


def test_a_pool_smaller_than_the_budget_is_asked_once(victim: Victim) -> None:
    oracle = Oracle(victim, budget=500)
    result = extract("surrogate", oracle, pool=torch.rand(120, 1, 8, 8), stops=[50, 300], **QUICK)
    assert [point.queries for point in result.curve] == [50, 120]
    assert oracle.ledger.spent() == 120


def test_a_pool_of_the_wrong_shape_and_an_unknown_one_are_refused(victim: Victim) -> None:
    oracle = Oracle(victim, budget=50)
    with pytest.raises(UsageError, match=r"expected queries of shape \(n, 1, 8, 8\), got \(50, 64\)"):
        extract("surrogate", oracle, pool=torch.rand(50, 64), **QUICK)
    with pytest.raises(UsageError, match="did you mean 'digits'"):
        extract("surrogate", oracle, pool="digit", **QUICK)
    assert oracle.ledger.spent() == 0


@pytest.mark.parametrize("view", ["logits", "labels"])
def test_a_single_score_is_refused_instead_of_learned_as_nothing(view: str) -> None:
    victim = load_victim(nn.Linear(4, 1), low=0.0, high=1.0, outputs="logits")
    with pytest.raises(UsageError, match="got a single score; let the victim return two columns, 0 and the score"):
        extract("surrogate", Oracle(victim, view, budget=50), student="linear", recipe=Recipe(steps=1))


def test_a_pool_of_the_first_classes_has_no_others(victim: Victim, train: Dataset) -> None:
    oracle = Oracle(victim, budget=100)
    result = extract("surrogate", oracle, pool="digits", first_classes=3, **QUICK)
    few = train.x[train.y < 3].flatten(1)
    assert result.notes["pool"] == len(few)
    assert (torch.cdist(result.queries.flatten(1), few).amin(1) < 1e-5).all()


def test_gaussian_noise_fills_the_box_and_has_the_stated_spread() -> None:
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 100.0])
    x = gaussian(20_000, VictimSpec("v", (2,), Box(low, high), 2, "logits"), stream(0))
    assert bool(((x >= low) & (x <= high)).all())
    torch.testing.assert_close(x.mean(0), torch.tensor([0.0, 50.0]), atol=0.5, rtol=0)
    # A normal cut at two standard deviations by clamping: half the width is 2 sigma, variance 0.9205 sigma².
    torch.testing.assert_close(x.std(0), (high - low) / 4 * 0.9594, rtol=0.02, atol=0)
    loose = gaussian(20_000, VictimSpec("v", (2,), Box(None, None), 2, "logits"), stream(0))
    torch.testing.assert_close(loose.std(0), torch.ones(2), rtol=0.02, atol=0)


def test_labels_are_learned_as_they_are_not_softened(victim: Victim, train: Dataset) -> None:
    """Softened labels would hold every margin near one value, and such a copy's gradients mislead an attacker."""
    longer = QUICK | {"recipe": Recipe(steps=900, batch=100, lr=5e-3, schedule="cyclic")}
    copy = extract("surrogate", Oracle(victim, "labels", budget=1400), pool="digits", **longer).substitute
    with torch.no_grad():
        best, second = copy(train.x).topk(2).values.T
    assert (best - second).median() > 6.9  # softened to 0.001, the odds are at most 999 to 1


@pytest.mark.parametrize("box", [{"low": 0.0, "high": 1.0}, {"low": None, "high": None}])
@pytest.mark.parametrize("shape", [(1, 8, 8), (6,), (2, 5)])
def test_a_procedural_pool_is_what_the_attack_draws(box: dict, shape: tuple[int, ...]) -> None:
    victim = load_victim(nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 3)), input_shape=shape, **box)
    job = AttackJob(3, torch.device("cpu"), stops=(40,))
    pool = Surrogate(pool="procedural")._pool(victim.spec, job)
    assert torch.equal(pool, Procedural().draw(40, victim.spec, stream(3, "pool")))
