"""What the columns of a table hold, read off its rows for the owner to check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leakmeter.data.columns import Column, Columns
from leakmeter.data.table import numbers
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    import polars

_MOST_LEVELS = 500


def describe(frame: polars.DataFrame, path: Path, target: str | None = None) -> Columns:
    """Every column but the target: words are levels, numbers range as the rows do, 0-or-1 families are one-hot."""
    names = [name for name in frame.columns if name != target]
    if not names:
        raise UsageError(f"expected columns beside the target '{target}' in {path}, got none")
    columns = {name: _column(frame[name], path) for name in names}
    for group, members in _onehot(frame, columns, path).items():
        columns |= {name: Column(name=name, kind="onehot", group=group) for name in members}
    return Columns(list(columns.values()))


def _column(values: polars.Series, path: Path) -> Column:
    if _is_text(values):
        return _words(values, path)
    found = numbers(values, path)
    present = found[~np.isnan(found)]
    _require_change(values.name, len(np.unique(present)), path)
    low, high, missing = float(present.min()), float(present.max()), len(present) < len(found)
    kind = "integer" if bool((present == np.round(present)).all()) else "numeric"
    return Column(name=values.name, kind=kind, low=low, high=high, missing=missing)


def _is_text(values: polars.Series) -> bool:
    """Whether a column is of words: most of its values are. A few words among numbers are a slip."""
    import polars

    if values.dtype not in (polars.String, polars.Categorical):
        return False
    texts = values.cast(polars.String).drop_nulls()
    return 2 * int(texts.cast(polars.Float64, strict=False).is_null().sum()) >= max(1, len(texts))


def _words(values: polars.Series, path: Path) -> Column:
    import polars

    texts = values.cast(polars.String).drop_nulls()
    days = texts.head(1000).str.extract(r"^(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})", 1)
    if len(days) and days.is_not_null().all():
        raise UsageError(
            f"expected numbers or words in the column '{values.name}' of {path}, got dates such as '{texts[0]}'; "
            "turn them into numbers, such as days since a first one"
        )
    levels = sorted(texts.unique().to_list())
    _require_change(values.name, len(levels), path)
    if len(levels) > _MOST_LEVELS:
        raise UsageError(
            f"expected at most {_MOST_LEVELS} different words in the column '{values.name}' of {path}, "
            f"got {len(levels):,}; leave it out, as names and identifiers say nothing"
        )
    return Column(name=values.name, kind="categorical", levels=tuple(levels), missing=values.is_null().any())


def _require_change(name: str, different: int, path: Path) -> None:
    if different < 2:
        raise UsageError(
            f"expected different values in the column '{name}' of {path}, got one only; leave it out, or tell in "
            "[columns] of a plan what else it may hold"
        )


def _onehot(frame: polars.DataFrame, columns: dict[str, Column], path: Path) -> dict[str, list[str]]:
    """Families of 0-or-1 columns named `family_member` of which exactly one is 1 in every row."""
    families: dict[str, list[str]] = {}
    for name, column in columns.items():
        if column.kind == "integer" and column.ends == (0.0, 1.0) and not column.missing and "_" in name:
            families.setdefault(name.rpartition("_")[0], []).append(name)
    values = {name: numbers(frame[name], path) for members in families.values() for name in members}
    return {
        family: members
        for family, members in families.items()
        if len(members) > 1 and bool((_total([values[name] for name in members]) == 1).all())
    }


def _total(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.asarray(np.sum(columns, axis=0))
