"""An ONNX model of a table that takes every column as an input of its own, as scikit-learn's converter writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakmeter.data.columns import Columns
from leakmeter.errors import UsageError
from leakmeter.victims.numbers import as_type

WORDS = "tensor(string)"


@dataclass(frozen=True)
class ColumnInput:
    """One column: the input that takes it, and how numbers of a row become what that takes."""

    name: str
    dtype: np.dtype[Any] | None
    """None: it takes words."""
    levels: tuple[str, ...] = ()

    def feed(self, values: np.ndarray) -> np.ndarray:
        """The column as the input takes it, [n, 1]; a missing word is an empty one."""
        if self.dtype is not None:
            return as_type(values[:, None], self.dtype)
        words = np.array([*self.levels, ""], dtype=object)
        return np.asarray(words[np.where(np.isnan(values), len(self.levels), values).astype(int)])[:, None]


def is_table(inputs: list[Any], numbers: Mapping[str, Any]) -> bool:
    """Whether there are several inputs and each is one column."""
    return len(inputs) > 1 and all(
        len(each.shape) == 2 and each.shape[1] == 1 and (each.type in numbers or each.type == WORDS) for each in inputs
    )


def column_inputs(inputs: list[Any], numbers: Mapping[str, Any], columns: Columns | None) -> tuple[ColumnInput, ...]:
    """The inputs in the order of the columns, or what must be said of them."""
    by_name = {each.name: each for each in inputs}
    if columns is None:
        words = [name for name, each in by_name.items() if each.type == WORDS]
        if words:
            raise UsageError(
                f"the inputs {', '.join(words[:12])} take words: say which, by a table (--data) or in [columns]"
            )
        return tuple(ColumnInput(name, np.dtype(numbers[each.type])) for name, each in by_name.items())
    if set(columns.names) != set(by_name):
        odd = next(name for name in (*columns.names, *by_name) if (name in by_name) != (name in columns.names))
        raise UsageError(
            f"expected the columns that the model takes, {', '.join(list(by_name)[:12])}, got a difference at '{odd}'; "
            "mend [columns], or name the target (target = in [data], --target-column)"
        )
    return tuple(_told(by_name[column.name], column, numbers) for column in columns)


def _told(described: Any, column: Any, numbers: Mapping[str, Any]) -> ColumnInput:
    if described.type == WORDS:
        if not column.levels:
            raise UsageError(f"the input '{column.name}' takes words: give the column levels, kind = \"categorical\"")
        levels = tuple(map(str, column.levels)) if column.words else ()
        if not levels:
            raise UsageError(f"the input '{column.name}' takes words, and the levels of its column are numbers")
        return ColumnInput(column.name, None, levels)
    if column.words:
        raise UsageError(f"the input '{column.name}' takes numbers, and the levels of its column are words")
    return ColumnInput(column.name, np.dtype(numbers[described.type]))
