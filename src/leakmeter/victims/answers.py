"""Whatever a model returns, as one array of numbers: of several outputs the one that is meant, maps as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.registry import did_you_mean

_SCORES = ("prob", "logit")  # what outputs that hold them are called, the more wanted first


def likely(names: Iterable[str]) -> str | None:
    """The only name of probabilities, else of logits; None: the names do not tell."""
    for word in _SCORES:
        found = [name for name in names if word in name.lower()]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def chosen(answer: Any, output: str | None) -> Any:
    """Of a dictionary or a tuple the part called `output`, or the one that must be meant; else the answer itself."""
    parts = _parts(answer)
    if parts is None:
        if output is not None:
            raise UsageError(f"expected output only for a model that returns several, got '{output}'; leave it out")
        return answer
    if not parts:
        raise UsageError("expected the model to return numbers, got nothing")
    if output is not None:
        if output not in parts:
            raise UsageError(f"the model has no output '{output}'{did_you_mean(output, list(parts))} ({_list(parts)})")
        return parts[output]
    name = next(iter(parts)) if len(parts) == 1 else likely(parts)
    if name is None:
        raise UsageError(
            f"the model returns {_list(parts)}; choose one with output='{next(iter(parts))}', on the command line "
            f"--output {next(iter(parts))}"
        )
    return parts[name]


def no_rows(n: int, answer: Any) -> UsageError:
    """For an answer to `n` inputs that is not a row of scores for each."""
    got = f"shape {tuple(answer.shape)}" if hasattr(answer, "shape") else type(answer).__name__
    return UsageError(
        f"expected one row of outputs for each of {n} inputs, got {got}; a model that answers with boxes, maps or "
        "texts needs a function that makes one score a class of them"
    )


def is_maps(answer: Any) -> bool:
    """Whether it is a map from class to score for every row."""
    return isinstance(answer, list) and bool(answer) and all(isinstance(each, Mapping) for each in answer)


def columns_of(maps: Sequence[Mapping[Any, Any]]) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """A column for each class, and what the classes are called, where they have words and not numbers."""
    names = list(maps[0])
    if any(set(each) != set(names) for each in maps):
        raise UsageError("expected a score for the same classes in every row, got rows that name others")
    words = tuple(names) if all(isinstance(name, str) for name in names) else None
    return np.array([[each[name] for name in names] for each in maps]), words


class OneOutput(nn.Module):
    """The last layer of a network that returns several outputs: the tensor that is meant.

    Attributes:
        needed: whether the network was seen to return anything but a tensor.
    """

    def __init__(self, output: str | None) -> None:
        super().__init__()
        self._output, self.needed = output, False

    def forward(self, answer: Any) -> Tensor:
        """The tensor."""
        self.needed |= not isinstance(answer, Tensor)
        found = chosen(answer, self._output)
        if not isinstance(found, Tensor):
            raise UsageError(f"expected the model to return a tensor, got {type(found).__name__}")
        return found


def _parts(answer: Any) -> dict[str, Any] | None:
    """What a model returns by name or by place; None: one thing."""
    if isinstance(answer, tuple) and hasattr(answer, "_asdict"):
        answer = answer._asdict()
    if isinstance(answer, Mapping):
        return {str(name): part for name, part in answer.items() if part is not None}
    several = isinstance(answer, tuple) or (isinstance(answer, list) and any(_dimensions(part) > 1 for part in answer))
    if not several or not any(_dimensions(part) for part in answer):
        return None
    return {str(place): part for place, part in enumerate(answer)}


def _dimensions(part: Any) -> int:
    return len(getattr(part, "shape", ()))


def _list(parts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({'x'.join(map(str, getattr(part, 'shape', ())))})" for name, part in parts.items())
