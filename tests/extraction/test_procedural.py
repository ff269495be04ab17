from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.extraction.base import extract
from leakmeter.extraction.procedural import fairest, jittered
from leakmeter.extraction.targets import interval_loss
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.runs.run import Run
from leakmeter.seeds import stream
from leakmeter.training.loop import Recipe, fit
from leakmeter.victims.load import load_victim

QUICK = {
    "committee": 2,
    "jitter": 0.0,
    "lessons": 300,
    "scout": Recipe(steps=90, batch=50, lr=1e-2),
    "learn": Recipe(steps=150, batch=50, lr=1e-2, schedule="cyclic"),
    "teach": Recipe(steps=250, batch=50, lr=1e-2, schedule="cyclic"),
}


def make_oracle(
    budget: int | None, view: str = "probs", shape: tuple[int, ...] = (1, 8, 8), low=0.0, high=1.0
) -> Oracle:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 4))
    victim = load_victim(net, input_shape=shape, low=low, high=high, classes=4, outputs="logits")
    return Oracle(victim, view=view, budget=budget)


@pytest.mark.parametrize("view", ["logits", "probs", "probs:2", "top:2", "top:1", "labels"])
def test_every_view_gives_a_copy_from_exactly_the_budget(view: str) -> None:
    test = (torch.rand(400, 1, 8, 8, generator=stream(9)), None)
    oracle = make_oracle(400, view)
    result = extract("procedural", oracle, seed=1, test=test, stops=[100], student="linear", **QUICK)
    assert oracle.ledger.spent() == 400
    assert [point.queries for point in result.curve] == [100, 400]
    assert result.curve[-1].score.fidelity > (0.85 if view in ("logits", "probs") else 0.6)
    assert result.findings.class_entropy > 0.3
    assert result.queries.shape == (64, 1, 8, 8)


@pytest.mark.parametrize(
    ("shape", "low", "high"), [((3, 9, 7), -1.0, 2.0), ((5,), 0.0, 9.0), ((5,), None, None), ((2, 6), 0.0, 1.0)]
)
def test_colours_tables_open_boxes_and_other_shapes_are_drawn_inside_the_box(shape, low, high) -> None:
    oracle = make_oracle(60, shape=shape, low=low, high=high)
    result = extract("procedural", oracle, seed=1, student="linear", **QUICK)  # the oracle refuses what leaves the box
    assert result.queries.shape[1:] == shape
    assert oracle.ledger.spent() == 60


def test_the_same_seed_gives_the_same_copy_and_another_seed_another() -> None:
    copies = [extract("procedural", make_oracle(80), seed=s, student="linear", **QUICK).substitute for s in (1, 1, 2)]
    weights = [torch.cat([p.flatten() for p in copy.parameters()]) for copy in copies]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_budget_partly_spent_by_others_is_used_to_the_last_query() -> None:
    oracle = make_oracle(100)
    oracle.query(torch.zeros(30, 1, 8, 8))
    result = extract("procedural", oracle, student="linear", **QUICK)
    assert oracle.ledger.remaining == 0
    assert result.curve[-1].queries == 70


def test_chosen_queries_are_close_calls() -> None:
    """A scout that tells two classes by whether the first pixel is bright is unsure of the grey ones."""
    from leakmeter.extraction.base import AttackJob
    from leakmeter.extraction.procedural import Procedural, _Campaign

    campaign = _Campaign(
        Procedural(makers={"textures": 1.0}, choice=10), make_oracle(100), AttackJob(0, torch.device("cpu"))
    )
    campaign._ask(campaign._draw(50))
    scout = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    nn.init.zeros_(scout[1].weight)
    scout[1].weight.data[:2, 0] = torch.tensor([5.0, -5.0])
    scout[1].bias.data[:] = torch.tensor([-2.5, 2.5, -9.0, -9.0])
    chosen = campaign._choose(scout, 20)[:, 0, 0, 0]
    assert (chosen - 0.5).abs().max() < (campaign._draw(200)[:, 0, 0, 0] - 0.5).abs().median()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=40),
    st.lists(st.integers(0, 9), min_size=4, max_size=4),
)
def test_the_fairest_order_is_what_taking_one_by_one_gives(items: list[tuple[int, int]], counts: list[int]) -> None:
    classes, cost = torch.tensor(items).T
    order = fairest(classes, cost.float(), torch.tensor(counts)).tolist()
    assert sorted(order) == list(range(len(items)))
    left, have = set(order), list(counts)
    for taken in order:
        fewest = min(have[items[i][0]] for i in left)
        assert have[items[taken][0]] == fewest, "from a class that has the fewest"
        assert items[taken][1] == min(items[i][1] for i in left if items[i][0] == items[taken][0])
        left.remove(taken)
        have[items[taken][0]] += 1


def test_choosing_in_rounds_evens_out_the_classes_at_the_same_price() -> None:
    def entropy(rounds: int) -> float:
        oracle = make_oracle(600, "labels")
        findings = extract("procedural", oracle, student="linear", rounds=rounds, **QUICK).findings
        assert oracle.ledger.spent() == 600
        return float(findings.class_entropy)

    assert entropy(4) > entropy(1) + 0.02


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_fewer_queries_than_rounds_are_asked_all_the_same(budget: int) -> None:
    oracle = make_oracle(budget, "labels")
    extract("procedural", oracle, student="linear", rounds=4, **QUICK)
    assert oracle.ledger.spent() == budget


@pytest.mark.parametrize("enough", [60, 61])
def test_answers_that_a_knowing_attacker_takes_for_rounded_are_never_learned_as_exact(monkeypatch, enough: int) -> None:
    def refused(_: object) -> None:
        raise AssertionError("the attacker knows better")

    monkeypatch.setattr("leakmeter.extraction.procedural.answered_logits", refused)
    oracle = Oracle(
        make_oracle(None)._responder, "probs", 60, undo=lambda a: replace(a, view=View("probs", decimals=2))
    )
    extract("procedural", oracle, student="linear", enough=enough, **QUICK)
    assert oracle.ledger.spent() == 60


def test_jitter_moves_a_picture_a_little_and_none_at_strength_zero() -> None:
    x = torch.zeros(50, 1, 28, 28)
    x[:, :, 10:18, 10:18] = 1
    moved = jittered(x, 1.0, stream(0))
    assert torch.equal(jittered(x, 0.0, stream(0)), x)
    assert not torch.equal(moved[0], moved[1])
    assert moved[:, :, 13:15, 13:15].min() > 0.99  # the middle stays inside
    assert moved[:, :, :6].max() == 0
    assert torch.equal(jittered(torch.ones(3, 5), 1.0, stream(0)), torch.ones(3, 5))


def test_no_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="budget"):
        extract("procedural", make_oracle(None))


@pytest.mark.parametrize("dies_at", [8, 45, 60])  # in the first scout, in the second, in the committee
def test_a_killed_attack_goes_on_to_the_same_weights_and_pays_no_answer_twice(tmp_path, monkeypatch, dies_at) -> None:
    monkeypatch.setattr("leakmeter.checkpoint._SECONDS", 0.0)
    short = QUICK | {"learn": Recipe(steps=12, batch=50), "teach": Recipe(steps=15, batch=50)}
    short["scout"] = Recipe(steps=12, batch=50)

    def attack(path, dies_at: int = -1) -> tuple[list[torch.Tensor], int]:
        run, steps = Run.enter(path, {}), 0

        def counted(*args, **kwargs):
            nonlocal steps
            steps += 1
            if steps == dies_at:
                raise KeyboardInterrupt
            return interval_loss(*args, **kwargs)

        monkeypatch.setattr("leakmeter.extraction.procedural.interval_loss", counted)
        net = make_oracle(None)._responder
        oracle = Oracle(net, "probs:2", ledger=run.ledger(120), log=run.answers())
        done = extract(
            "procedural", oracle, seed=2, stops=[60], student="linear", checkpoints=run.checkpoint, rounds=2, **short
        )
        return list(done.substitute.parameters()), oracle.ledger.spent()

    whole, _ = attack(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        attack(tmp_path / "killed", dies_at)
    resumed, spent = attack(tmp_path / "killed")
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    assert spent == 120


@pytest.mark.parametrize(
    ("view", "enough", "expected"),
    [("probs", 60, [300]), ("probs", 61, [150, 150, 250]), ("labels", 60, [90, 150, 150, 250])],
)
def test_exact_answers_need_no_scout_and_enough_of_them_one_student_with_all_the_committees_steps(
    monkeypatch: pytest.MonkeyPatch, view: str, enough: int, expected: list[int]
) -> None:
    from leakmeter.extraction import procedural

    taken: list[int | None] = []

    def watched(model, data, loss, recipe, **rest):
        taken.append(recipe.steps)
        return fit(model, data, loss, recipe, **rest)

    monkeypatch.setattr(procedural, "fit", watched)
    extract("procedural", make_oracle(60, view), student="linear", enough=enough, rounds=2, **QUICK)
    assert taken == expected
