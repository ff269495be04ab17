"""What the columns of a table may hold: numbers in a range, whole numbers, levels of a category, one-hot groups.

A row is a vector of one number a column. A category whose levels are words is held as the number of the level, one
whose levels are numbers as that number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from torch import Tensor

from leakmeter.errors import UsageError

Kind = Literal["numeric", "integer", "categorical", "onehot"]
_NEARLY = 0.02  # by how much published shares may miss 1: they are rounded
_MANY = 1 << 16  # whole numbers of a range that are still worth listing


class Column(BaseModel):
    """One column: its name and what it may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind = "numeric"
    low: float | None = None
    """numeric, integer: the lowest value."""
    high: float | None = None
    levels: tuple[str | int | float, ...] = ()
    """categorical: every value there is."""
    group: str | None = None
    """onehot: the group of 0-or-1 columns of which exactly one is 1."""
    missing: bool = False
    """numeric, integer: whether a value may be missing; then NaN stands for it."""
    mean: float | None = None
    """numeric, integer, onehot: the mean, where it is published and an outsider may know it."""
    shares: tuple[float, ...] = ()
    """categorical: how often each level comes up, where that is published."""

    @model_validator(mode="after")
    def _complete(self) -> Column:
        if self.kind in ("numeric", "integer"):
            if self.low is None or self.high is None or not (math.isfinite(self.low) and math.isfinite(self.high)):
                raise ValueError("a numeric or integer column needs low and high")
            if not self.low < self.high:
                raise ValueError(
                    f"low must be below high, got {self.low:g} and {self.high:g}; leave a constant column out"
                )
            if self.kind == "integer" and (self.low != round(self.low) or self.high != round(self.high)):
                raise ValueError("the low and high of an integer column must be whole numbers")
        if self.kind == "categorical" and len(set(self.levels)) < max(2, len(self.levels)):
            raise ValueError("a categorical column needs two different levels or more, each once")
        if self.kind == "onehot" and not self.group:
            raise ValueError("a onehot column needs the name of its group")
        self._check_published()
        return self

    def _check_published(self) -> None:
        if self.mean is not None and (self.kind == "categorical" or not self.ends[0] <= self.mean <= self.ends[1]):
            raise ValueError("a mean is a number between low and high; a categorical column has shares instead")
        if self.shares and (self.kind != "categorical" or len(self.shares) != len(self.levels)):
            raise ValueError("shares are those of a categorical column, one for each level")
        if self.shares and not (min(self.shares) >= 0 and abs(sum(self.shares) - 1) < _NEARLY):
            raise ValueError("shares must not be negative and must add up to 1")

    @property
    def words(self) -> bool:
        """Whether the levels are words, which a row holds by their numbers."""
        return any(isinstance(level, str) for level in self.levels)

    @property
    def values(self) -> list[float] | None:
        """All values there are, rising; None: too many to list."""
        if self.kind == "categorical":
            return list(map(float, range(len(self.levels)))) if self.words else sorted(map(float, self.levels))
        if self.kind == "onehot":
            return [0.0, 1.0]
        assert self.low is not None
        assert self.high is not None
        if self.kind == "integer" and self.high - self.low < _MANY:
            return list(map(float, range(int(self.low), int(self.high) + 1)))
        return None

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest number a row may hold here."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        values = self.values or [0.0, 1.0]
        return values[0], values[-1]

    def level(self, value: float) -> str:
        """A value of this column as its owner writes it."""
        return str(self.levels[int(value)]) if self.words else f"{value:.9g}"


class Columns(Sequence[Column]):
    """The columns of a table, in order."""

    def __init__(self, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"expected every column once, got '{twice}' twice; rename one")
        if not columns:
            raise UsageError("expected at least one column, got none")
        self._columns = tuple(columns)
        self.groups: dict[str, list[int]] = {}
        for place, column in enumerate(columns):
            if column.group:
                self.groups.setdefault(column.group, []).append(place)

    @classmethod
    def parse(cls, section: Mapping[str, Mapping[str, Any]]) -> Columns:
        """The `[columns]` section of a plan: `Age = {kind = "integer", low = 18, high = 99}`."""
        made = []
        for name, settings in section.items():
            try:
                made.append(Column(name=name, **settings))
            except (ValidationError, TypeError) as error:
                why = error.errors()[0] if isinstance(error, ValidationError) else {"msg": str(error), "loc": ()}
                key = "".join(f" {part}:" for part in why["loc"])
                raise UsageError(f"the column '{name}' in [columns] is not complete:{key} {why['msg']}") from error
        return cls(made)

    @classmethod
    def plain(cls, low: Tensor, high: Tensor, features: int) -> Columns:
        """Numbers between two bounds, for a table nobody described."""
        lows, highs = (side.double().expand(features).tolist() for side in (low, high))
        return cls([Column(name=f"column {j}", low=lows[j], high=highs[j]) for j in range(features)])

    def __getitem__(self, place: Any) -> Any:
        return self._columns[place]

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def names(self) -> list[str]:
        """The names in order."""
        return [column.name for column in self]

    @property
    def low(self) -> Tensor:
        """The lowest value of each column."""
        return torch.tensor([column.ends[0] for column in self], dtype=torch.float64)

    @property
    def high(self) -> Tensor:
        """The highest value of each column."""
        return torch.tensor([column.ends[1] for column in self], dtype=torch.float64)

    def section(self) -> dict[str, dict[str, Any]]:
        """What `parse` reads."""
        return {column.name: column.model_dump(exclude={"name"}, exclude_defaults=True, mode="json") for column in self}

    def snap(self, x: Tensor) -> Tensor:
        """The rows with every value moved to one its column may hold, and each group to one 1."""
        x = x.clone()
        for place, column in enumerate(self):
            x[:, place] = _snapped(x[:, place], column)
        for group in self.groups.values():
            largest = x[:, group].argmax(1)
            x[:, group] = torch.nn.functional.one_hot(largest, len(group)).to(x)
        return x

    def uniform(self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
        """Rows whose every column is uniform over what it may hold."""
        unit = torch.rand(n, len(self), generator=generator, dtype=torch.float64)
        x = torch.empty_like(unit)
        for place, column in enumerate(self):
            values = column.values
            low, high = column.ends
            if values is None:
                x[:, place] = low + unit[:, place] * (high - low)
            else:
                x[:, place] = torch.tensor(values)[(unit[:, place] * len(values)).long()].double()
        for group in self.groups.values():
            x[:, group] = unit[:, group]
        return self.snap(x).to(dtype)

    def admit(self, x: Tensor, first_row: int = 1) -> Tensor:
        """The rows, or an error that names the first column and row that does not fit."""
        for place, column in enumerate(self):
            bad = (x[:, place] - _snapped(x[:, place], column)).abs() > 1e-6 * (1 + x[:, place].abs())
            bad |= x[:, place].isnan() & (not column.missing)
            if bool(bad.any()):
                row = int(bad.nonzero()[0, 0])
                raise UsageError(
                    f"expected {_admits(column)} in the column '{column.name}', "
                    f"got {float(x[row, place]):.9g} in row {row + first_row}"
                )
        for name, group in self.groups.items():
            wrong = (x[:, group].sum(1) - 1).abs() > 1e-6
            if bool(wrong.any()):
                row = int(wrong.nonzero()[0, 0])
                raise UsageError(
                    f"expected exactly one 1 in the one-hot group '{name}', got another number in row {row + first_row}"
                )
        return x

    def above(self, place: int, threshold: float) -> str:
        """A threshold in the owner's words: `Age > 41.5`."""
        return f"{self[place].name} > {threshold:.9g}"


def _snapped(x: Tensor, column: Column) -> Tensor:
    low, high = column.ends
    kept = x.clamp(low, high)  # NaN stays NaN
    if column.kind == "integer":
        return kept.round()
    values = column.values
    if column.kind != "numeric" and values is not None:
        choices = torch.tensor(values, dtype=x.dtype, device=x.device)
        return choices[(kept.nan_to_num(0)[:, None] - choices).abs().argmin(1)]
    return kept


def _admits(column: Column) -> str:
    if column.kind == "categorical":
        shown = ", ".join(map(str, column.levels[:6])) + (", ..." if len(column.levels) > 6 else "")
        return f"one of the levels {shown}"
    low, high = column.ends
    return f"{'a whole number' if column.kind != 'numeric' else 'a number'} from {low:.9g} to {high:.9g}"
