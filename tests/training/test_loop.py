import io
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import ValidationError
from torch import Tensor, nn

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.models import make_model
from leakmeter.seeds import private_randomness
from leakmeter.training.loop import Batch, Recipe, fit

SHAPE = (1, 12, 12)
NETS = ("mlp:16", "lenet", "stn-mnist", "small-conv:4")  # stn-mnist has dropout, small-conv running statistics


class Killed(Exception):
    pass


class Memory:
    """A checkpoint that goes through bytes, is due every step, and dies after saving step `die_at`."""

    def __init__(self, die_at: int | None = None) -> None:
        self.die_at, self.kept, self.saves = die_at, b"", 0

    def load(self) -> dict[str, object] | None:
        return torch.load(io.BytesIO(self.kept), weights_only=True) if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, state: dict[str, object]) -> None:
        out = io.BytesIO()
        torch.save(state, out)
        self.kept, self.saves = out.getvalue(), self.saves + 1
        if state["step"] == self.die_at:
            raise Killed


def data(n: int = 50) -> Batch:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, *SHAPE, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def noisy_loss(model: nn.Module, batch: Batch, draws: torch.Generator) -> Tensor:
    x, y = batch
    return F.cross_entropy(model(x + 0.1 * torch.randn(x.shape, generator=draws)), y)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def train(name: str, recipe: Recipe, *, seed: int = 1, checkpoint: Memory | None = None) -> dict[str, Tensor]:
    model = make_model(name, SHAPE, 3)
    return weights(fit(model, data(), noisy_loss, recipe, seed=seed, checkpoint=checkpoint))


RECIPE = Recipe(steps=12, batch=16, lr=1e-2, schedule="cosine")


@pytest.mark.parametrize("name", NETS)
def test_the_seed_decides_the_weights_and_the_global_state_stays(name: str) -> None:
    before = torch.get_rng_state()
    first = train(name, RECIPE)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)  # what others drew from the global generator must not matter
    assert same(first, train(name, RECIPE))
    assert not same(first, train(name, RECIPE, seed=2))


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("die_at", [1, 3, 4, 11, 12])  # 50 rows at 16 a batch: an epoch ends after step 3
def test_resuming_gives_the_same_bits(name: str, die_at: int) -> None:
    whole = train(name, RECIPE)
    checkpoint = Memory(die_at)
    with pytest.raises(Killed):
        train(name, RECIPE, checkpoint=checkpoint)
    checkpoint.die_at = None
    torch.rand(3)
    assert same(whole, train(name, RECIPE, checkpoint=checkpoint))
    assert checkpoint.saves == 12


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_resuming_keeps_the_optimizers_memory(optimizer: str) -> None:
    recipe = RECIPE.model_copy(update={"optimizer": optimizer, "weight_decay": 1e-2})
    whole = train("lenet", recipe)
    checkpoint = Memory(5)
    with pytest.raises(Killed):
        train("lenet", recipe, checkpoint=checkpoint)
    checkpoint.die_at = None
    assert same(whole, train("lenet", recipe, checkpoint=checkpoint))


def test_checkpoints_do_not_change_the_result() -> None:
    assert same(train("stn-mnist", RECIPE), train("stn-mnist", RECIPE, checkpoint=Memory()))


def test_it_learns_and_returns_the_model_ready_to_answer() -> None:
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = make_model("mlp:32", (2,), 2)
    trained = fit(
        model, (x, y), lambda m, b, _: F.cross_entropy(m(b[0]), b[1]), Recipe(epochs=30, batch=20, lr=1e-2), seed=0
    )
    assert trained is model
    assert not trained.training
    assert (trained(x).argmax(1) == y).float().mean() > 0.95


def test_each_epoch_sees_every_row_once_in_a_new_order() -> None:
    seen: list[Tensor] = []

    def loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        seen.append(batch[1])
        return model(batch[0]).sum()

    rows = torch.arange(20)
    fit(make_model("linear", (1,), 1), (rows[:, None].float(), rows), loss, Recipe(epochs=2, batch=5), seed=0)
    first, second = torch.cat(seen[:4]), torch.cat(seen[4:])
    assert len(seen) == 8
    assert torch.equal(first.sort().values, rows)
    assert torch.equal(second.sort().values, rows)
    assert not torch.equal(first, second)


def test_one_step_of_sgd_is_the_textbook_step() -> None:
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
    model = make_model("linear", (2,), 1)
    start = weights(model)
    fit(
        model,
        (x, y),
        lambda m, b, _: (m(b[0]) - b[1]).square().sum(),
        Recipe(steps=1, optimizer="sgd", lr=0.1, momentum=0),
        seed=0,
    )
    error = x @ start["1.weight"].T + start["1.bias"] - y
    torch.testing.assert_close(model.state_dict()["1.weight"], start["1.weight"] - 0.1 * 2 * error * x)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (Recipe(steps=1, lr=2.0), {0: 2.0, 0.5: 2.0, 1: 2.0}),
        (
            Recipe(steps=1, lr=1.0, schedule="step-decay", milestones=(0.3, 0.6), decay=0.1),
            {0: 1.0, 0.29: 1.0, 0.3: 0.1, 0.59: 0.1, 0.6: 0.01, 1: 0.01},
        ),
        (Recipe(steps=1, lr=2.0, schedule="cosine"), {0: 2.0, 1 / 3: 1.5, 0.5: 1.0, 1: 0.0}),
        (
            Recipe(steps=1, lr=1.0, schedule="cyclic", warmup=0.25),
            {0: 0.04, 0.125: 0.52, 0.25: 1.0, 0.625: 0.5, 1: 1e-4},
        ),
    ],
    ids=lambda value: value.schedule if isinstance(value, Recipe) else "",
)
def test_schedules(recipe: Recipe, expected: dict[float, float]) -> None:
    assert {done: recipe.rate(done) for done in expected} == pytest.approx(expected)


def test_the_schedule_reaches_the_optimizer() -> None:
    """Under SGD without momentum and a constant gradient of one, each weight moves by the sum of the rates."""
    recipe = Recipe(steps=10, batch=1, optimizer="sgd", momentum=0, lr=0.5, schedule="cyclic")
    model = make_model("linear", (1,), 1)
    start = model.state_dict()["1.bias"].clone()
    fit(model, (torch.zeros(4, 1),), lambda m, b, _: m(b[0]).sum(), recipe, seed=0)
    moved = float(start - model.state_dict()["1.bias"])
    assert moved == pytest.approx(math.fsum(recipe.rate(step / 10) for step in range(10)), rel=1e-5)


def test_lengths_of_training() -> None:
    assert Recipe(epochs=3, batch=10).total_steps(35) == 9
    assert Recipe(epochs=3, batch=10).total_steps(4) == 3
    assert Recipe(steps=7).total_steps(1_000_000) == 7


def test_no_steps_leave_the_weights_alone() -> None:
    model = make_model("linear", (2,), 2)
    start = weights(model)
    fit(model, (torch.rand(3, 2),), lambda m, b, _: m(b[0]).sum(), Recipe(steps=0), seed=0)
    assert same(start, weights(model))


@pytest.mark.parametrize("steps", [1, 30, 120])
def test_divergence_is_said_and_not_a_result(steps: int) -> None:
    def loss(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        return (model(batch[0]) * float("inf")).sum()

    with pytest.raises(Inconclusive, match=r"training diverged: .* lower the learning rate"):
        fit(make_model("linear", (2,), 2), (torch.rand(3, 2),), loss, Recipe(steps=steps), seed=0)


@pytest.mark.parametrize("columns", [(torch.rand(0, 2),), (torch.rand(3, 2), torch.zeros(2))])
def test_columns_that_do_not_match(columns: Batch) -> None:
    with pytest.raises(UsageError, match="equal length above 0, got lengths"):
        fit(make_model("linear", (2,), 2), columns, lambda m, b, _: m(b[0]).sum(), Recipe(steps=1), seed=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"epochs": 1, "steps": 1},
        {"steps": -1},
        {"steps": 1, "batch": 0},
        {"steps": 1, "lr": 0},
        {"steps": 1, "schedule": "linear"},
        {"steps": 1, "optimizer": "lbfgs"},
        {"steps": 1, "learning_rate": 0.1},
    ],
)
def test_recipes_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Recipe.model_validate(wrong)


def test_private_randomness_is_put_back_even_after_an_error() -> None:
    @private_randomness(3)
    def fail() -> None:
        torch.rand(4)
        raise Killed

    before = torch.get_rng_state()
    with pytest.raises(Killed):
        fail()
    assert torch.equal(torch.get_rng_state(), before)
    with private_randomness(3):
        a = torch.rand(4)
    with private_randomness(3):
        assert torch.equal(a, torch.rand(4))


def test_a_network_that_reshapes_with_view_trains_in_the_plain_layout() -> None:
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.dense = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.dense(self.conv(x).view(len(x), -1))

    x, y = torch.rand(8, 3, 8, 8), torch.arange(8) % 2
    torch.manual_seed(0)
    trained = fit(
        Viewing(),
        (x, y),
        lambda model, batch, _: F.cross_entropy(model(batch[0]), batch[1]),
        Recipe(steps=2, batch=4),
        seed=0,
    )
    assert trained.conv.weight.is_contiguous()


def test_an_epoch_shows_the_rows_it_lists_as_often_as_it_lists_them() -> None:
    seen: list[int] = []

    def watched(model: nn.Module, batch: Batch, _: torch.Generator) -> Tensor:
        seen.extend(batch[0][:, 0].int().tolist())
        return model(batch[0]).square().mean()

    rows, listed = torch.arange(5.0)[:, None], torch.tensor([0, 2, 2, 4])
    fit(nn.Linear(1, 1), (rows,), watched, Recipe(steps=6, batch=2, lr=1e-3), seed=0, epoch=listed)
    assert sorted(seen) == sorted([0, 2, 2, 4] * 3)
