"""Cells share what a victim computes, piece by piece, and nobody can tell it from the answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from leakmeter.oracle.oracle import Oracle
from leakmeter.victims import shared
from leakmeter.victims.load import load_victim
from leakmeter.victims.shared import Shared
from leakmeter.victims.victim import Question

X = torch.rand(300, 6, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """Three classes; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.calls = nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x)


class Dropping(Net):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), training=True)


class Wavering(Net):
    """Has random numbers that no seed of ours decides."""

    own = torch.Generator().manual_seed(7)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.randn(len(x), 3, generator=self.own)


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_WORTH", 0.0)


def opened(net: nn.Module):
    return load_victim(net, input_shape=(6,), low=0.0, high=1.0, classes=3, outputs="logits")


def ask(net: nn.Module, folder: Path, view: str = "logits", x: Tensor = X, **options) -> Oracle:
    oracle = Oracle(Shared(opened(net), folder, **options), view, budget=10_000)
    oracle.answer = oracle.query(x)  # type: ignore[attr-defined]
    return oracle


def computed(net: Net, folder: Path, *args, **options) -> tuple[int, Oracle]:
    """How often the victim was called for it."""
    victim = Shared(opened(net), folder, **options)
    before = net.calls
    oracle = Oracle(victim, *args, budget=10_000)
    oracle.query(X)
    return net.calls - before, oracle


def test_a_second_cell_computes_one_piece_to_compare_and_counts_them_all(tmp_path: Path) -> None:
    net = Net()
    assert [computed(net, tmp_path, view)[0] for view in ("logits", "labels", "probs")] == [2, 1, 1]
    _, oracle = computed(net, tmp_path, "labels")
    assert oracle.ledger.spent("attack") == len(X)
    assert oracle.remaining == 10_000 - len(X)


def test_answers_are_the_same_bits(tmp_path: Path) -> None:
    net = Net()
    alone = Oracle(opened(net), "logits").query(X).logits
    ask(net, tmp_path)
    assert torch.equal(ask(net, tmp_path).answer.logits, alone)  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", ["probs", "logits+smoothgrad:4,0.1", "probs+gradient", "labels+lime"])
def test_explanations_are_the_same_bits(tmp_path: Path, view: str) -> None:
    def columns(victim) -> dict[str, Tensor]:
        return Oracle(victim, view, seed=3).query(X[:20]).columns

    victim = opened(Net())
    want = columns(victim)
    for _ in range(2):
        got = columns(Shared(victim, tmp_path))
        assert want.keys() == got.keys()
        assert all(torch.equal(want[name], got[name]) for name in want)


def test_a_cell_that_asks_again_has_it_computed_again(tmp_path: Path) -> None:
    net = Wavering()
    oracle = ask(net, tmp_path)
    assert not torch.equal(oracle.query(X).logits, oracle.answer.logits)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Dropping, Wavering])
def test_a_victim_that_draws_is_not_made_to_repeat_itself(tmp_path: Path, kind: type[Net]) -> None:
    net = kind()
    first, second = (ask(net, tmp_path).answer.logits for _ in range(2))  # type: ignore[attr-defined]
    assert not torch.equal(first[:256], second[:256])
    assert not torch.equal(first[256:], second[256:])


def test_where_random_numbers_stand_does_not_depend_on_other_cells(tmp_path: Path) -> None:
    def drawn() -> Tensor:
        torch.manual_seed(5)
        return torch.cat([ask(net, tmp_path).answer.logits.flatten(), torch.rand(4)])  # type: ignore[attr-defined]

    net = Dropping()
    assert torch.equal(drawn(), drawn())


def test_a_resumed_cell_computes_itself(tmp_path: Path) -> None:
    net = Net()
    ask(net, tmp_path)
    assert computed(net, tmp_path, "logits", reads=False)[0] == 2


@pytest.mark.parametrize("damage", [b"", b"short", "flip", "cut", "swap"])
def test_what_is_damaged_is_computed_again(tmp_path: Path, damage: bytes | str) -> None:
    net = Net()
    want = ask(net, tmp_path).answer.logits  # type: ignore[attr-defined]
    files = sorted(tmp_path.iterdir())
    contents = [path.read_bytes() for path in files]
    for path, content, other in zip(files, contents, reversed(contents), strict=True):
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"flip": flipped, "cut": content[:-3], "swap": other}.get(damage, damage))  # type: ignore[call-overload,arg-type]
    calls, oracle = computed(net, tmp_path, "logits")
    assert calls == 2
    assert torch.equal(oracle.query(X).logits, want)


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    net = Net()
    assert [computed(net, tmp_path / "file", "labels")[0] for _ in range(2)] == [2, 2]


def test_other_types_shapes_and_layouts_are_other_questions(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    victim = load_victim(net, input_shape=(4, 4, 4), low=0.0, high=1.0, classes=3, outputs="logits")
    x = torch.rand(5, 4, 4, 4)
    with torch.no_grad():
        for form in (x, x[:4], x.contiguous(memory_format=torch.channels_last)):
            Shared(victim, tmp_path).respond(form, Question(torch.Generator()))
    assert len(list(tmp_path.iterdir())) == 3


def test_nothing_is_kept_of_a_failure(tmp_path: Path) -> None:
    victim = load_victim(lambda x: x * 1.0, input_shape=(3,), low=0.0, high=1.0, classes=3, outputs="logits")
    with torch.no_grad():
        Shared(victim, tmp_path).respond(torch.full((2, 3), float("nan")), Question(torch.Generator()))
    assert not list(tmp_path.iterdir())


def test_gradients_reach_the_victim(tmp_path: Path) -> None:
    victim = opened(Net())
    ask(Net(), tmp_path, x=X[:4])
    x = X[:4].clone().requires_grad_()
    Shared(victim, tmp_path).respond(x, Question(torch.Generator())).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_everything_else_is_the_victims(tmp_path: Path) -> None:
    victim = opened(Net())
    victim.notes = ("a note",)
    front = Shared(victim, tmp_path)
    names = ("spec", "remote", "differentiable", "batch", "notes", "trees", "patience", "own_explanation", "white_box")
    assert all(getattr(front, name) is getattr(victim, name) for name in names)


def test_quick_victims_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_WORTH", 60.0)
    net = Net()
    assert [computed(net, tmp_path, "labels")[0] for _ in range(2)] == [2, 2]
    assert not list(tmp_path.iterdir())
