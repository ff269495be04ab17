import torch

from leakmeter.extraction.memory import Memory
from leakmeter.seeds import stream


def rows(first: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.arange(first, first + n, dtype=torch.float32)
    return numbers[:, None], numbers * 10


def test_the_oldest_rows_give_way() -> None:
    memory = Memory(5)
    memory.add(*rows(0, 3))
    assert len(memory) == 3
    memory.add(*rows(3, 4))
    x, target = memory.sample(300, stream(0))
    assert len(memory) == 5
    assert set(x[:, 0].tolist()) == {2, 3, 4, 5, 6}
    assert torch.equal(target, x[:, 0] * 10)


def test_more_rows_than_fit_leave_the_last() -> None:
    memory = Memory(2)
    memory.add(*rows(0, 7))
    assert set(memory.sample(50, stream(0))[0][:, 0].tolist()) == {5, 6}


def test_only_what_was_added_is_sampled() -> None:
    memory = Memory(100)
    memory.add(*rows(1, 2))
    assert set(memory.sample(50, stream(0))[0][:, 0].tolist()) == {1, 2}


def test_a_state_goes_on_alike() -> None:
    first, second = Memory(4), Memory(4)
    first.add(*rows(0, 3))
    second.load_state_dict(first.state_dict())
    for memory in (first, second):
        memory.add(*rows(3, 3))
    assert torch.equal(first.sample(20, stream(1))[0], second.sample(20, stream(1))[0])
