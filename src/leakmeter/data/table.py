"""Tables as people have them: CSV or Parquet with a header, words and missing values (extra `[tables]`).

Read with polars: it reads a CSV as the text it is, so that a value that does not fit can be named by column and row, it
brings no second data-frame library along, and a Parquet file of a million rows stays well below a gigabyte.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from leakmeter.data.columns import Column, Columns
from leakmeter.data.dataset import Dataset, Split
from leakmeter.errors import UsageError, first_line, missing_extra
from leakmeter.files import check_announced
from leakmeter.registry import did_you_mean
from leakmeter.seeds import stream
from leakmeter.trial import tried

if TYPE_CHECKING:
    import polars

SUFFIXES = (".csv", ".parquet")
_FEWEST = 5  # rows; one in so many is held out
_OPENED, _READ = 10.0, 1e7  # seconds for a Parquet file at least, and bytes read in one: damaged ones can take for ever
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "None", "?"]


def load(
    path: Path,
    split: Split,
    columns: Columns | None = None,
    target: str | None = None,
    names: Sequence[str] | None = None,
) -> Dataset:
    """The train or test part of a table, fixed and disjoint, with labels or without.

    Args:
        path: a `.csv` or `.parquet` file.
        split: which part.
        columns: what the columns hold; None: read off the whole file.
        target: the column of classes; None: none, or the only one that is not in `names`.
        names: the columns the model takes, where it says them; None: all but the target.
    """
    from leakmeter.data.describe import describe

    frame = read(path)
    if names is not None and target is None:
        rest = [name for name in frame.columns if name not in names]
        target = rest[0] if len(rest) == 1 else None
    if target is not None and target not in frame.columns:
        raise _unknown(target, frame.columns, path, "the target")
    if columns is None:
        missing = next((name for name in names or () if name not in frame.columns), None)
        if missing is not None:
            raise _unknown(missing, frame.columns, path, "the column")
        columns = describe(frame.select([*(names or frame.columns)]), path, target)
    x = torch.from_numpy(encode(frame, columns, path))
    y, classes = (None, None) if target is None else labels(frame[target], path)
    whole = Dataset(
        path.stem,
        x,
        y,
        None if classes is None else len(classes),
        columns=columns,
        class_names=() if classes is None or all(map(str.isdecimal, classes)) else tuple(classes),
    )
    if split == "all":
        return whole
    if len(whole) < _FEWEST:
        raise UsageError(f"expected at least {_FEWEST} rows in {path} to hold some out, got {len(whole)}")
    test, train = whole.split(len(whole) // _FEWEST, stream(0, "holdout", len(whole)))
    return test if split == "test" else train


def read(path: Path) -> polars.DataFrame:
    """The rows of the file: a CSV as text, a Parquet file in its own types."""
    try:
        import polars
    except ImportError as error:
        raise missing_extra("polars", "tables") from error
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    check_announced(path, path.stat().st_size)
    if path.suffix.lower() == ".csv":
        _check_header(path)
    try:
        if path.suffix.lower() == ".csv":
            frame = polars.read_csv(path, infer_schema=False, null_values=_MISSING)
            _check_ends(frame, path)
        else:
            tried("leakmeter.data.parquet_trial", path, seconds=_OPENED + path.stat().st_size / _READ)
            rows = polars.scan_parquet(path)
            check_announced(path, 8 * len(rows.collect_schema()) * rows.select(polars.len()).collect().item())
            frame = rows.collect()
    except UsageError:
        raise
    except (Exception, polars.exceptions.PanicException) as error:  # a dozen kinds, and one that is no Exception
        raise UsageError(f"expected a table in {path}, got one that cannot be read: {first_line(error)}") from error
    if frame.height == 0:
        raise UsageError(f"expected rows in {path}, got an empty table")
    return frame


def _check_ends(frame: polars.DataFrame, path: Path) -> None:
    """Refuses a CSV with a row of too few fields, whose end reads as missing. A whole row has as many as the header."""
    if frame.height == 0 or frame.width < 2 or frame[frame.columns[-1]].null_count() == 0:
        return
    with path.open(newline="", encoding="utf-8", errors="replace") as lines:
        for number, fields in enumerate(csv.reader(lines)):
            if 0 < len(fields) < frame.width:
                raise UsageError(
                    f"expected {frame.width} fields in every row of {path}, got {len(fields)} in row {number}; "
                    "a missing value still needs its comma"
                )


def encode(frame: polars.DataFrame, columns: Columns, path: Path) -> NDArray[np.float32]:
    """The rows as numbers, in the order of `columns`; other columns of the file are left out."""
    out = np.empty((frame.height, len(columns)), dtype=np.float32)
    for place, column in enumerate(columns):
        if column.name not in frame.columns:
            raise _unknown(column.name, frame.columns, path, "the column")
        values = frame[column.name]
        out[:, place] = _codes(values, column, path) if column.words else numbers(values, path)
        _refuse_missing(out[:, place], column, path)
    columns.admit(torch.from_numpy(out))
    return out


def numbers(values: polars.Series, path: Path) -> NDArray[np.float64]:
    """A column of numbers, NaN where a value is missing."""
    import polars

    if values.dtype in (polars.Date, polars.Datetime, polars.Time, polars.Duration):
        raise UsageError(
            f"expected numbers or words in the column '{values.name}' of {path}, got dates; "
            "turn them into numbers, such as days since a first one"
        )
    if values.dtype == polars.Boolean:
        values = values.cast(polars.Int8)
    cast = values.cast(polars.Float64, strict=False)
    bad = cast.is_null() & values.is_not_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise UsageError(
            f"expected a number in the column '{values.name}' of {path}, got '{values[row]}' in row {row + 1}"
        )
    return cast.fill_null(float("nan")).to_numpy()


def labels(values: polars.Series, path: Path) -> tuple[torch.Tensor, list[str]]:
    """The classes of the target as numbers, and their names: whole numbers as they are, words in their order."""
    import polars

    if values.is_null().any():
        row = int(values.is_null().arg_max() or 0)
        raise UsageError(f"expected a class in the column '{values.name}' of {path}, got none in row {row + 1}")
    whole = values.cast(polars.Int64, strict=False)
    if not whole.is_null().any() and whole.min() == 0 and (most := int(str(whole.max()))) < _MOST_CLASSES:
        return torch.from_numpy(whole.to_numpy().copy()), [str(k) for k in range(most + 1)]
    texts = values.cast(polars.String)
    names = sorted(texts.unique().to_list(), key=_natural)
    if len(names) > _MOST_CLASSES:
        raise UsageError(
            f"expected classes in the column '{values.name}' of {path}, got {len(names):,} different values; "
            "leakmeter measures copies of classifiers, not of models that return an amount"
        )
    place = {name: number for number, name in enumerate(names)}
    return torch.tensor([place[text] for text in texts.to_list()]), names


_MOST_CLASSES = 1000


def _natural(name: str) -> tuple[int, float, str]:
    try:
        return (0, float(name), name)
    except ValueError:
        return (1, 0.0, name)


def _codes(values: polars.Series, column: Column, path: Path) -> NDArray[np.float64]:
    """The number of each level; a level nobody declared is named."""
    import polars

    texts = values.cast(polars.String)
    known = {str(level): float(code) for code, level in enumerate(column.levels)}
    codes = texts.replace_strict(known, default=None, return_dtype=polars.Float64)
    bad = codes.is_null() & texts.is_not_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise UsageError(
            f"expected one of the levels {_shown(column)} in the column '{column.name}' of {path}, "
            f"got '{texts[row]}' in row {row + 1}; add it to levels in [columns]"
        )
    return codes.fill_null(float("nan")).to_numpy()


def _refuse_missing(values: NDArray[Any], column: Column, path: Path) -> None:
    if not column.missing and bool(np.isnan(values).any()):
        row = int(np.isnan(values).argmax()) + 1
        raise UsageError(
            f"expected a value in the column '{column.name}' of {path}, got none in row {row}; "
            "say missing = true for it in [columns] if the model takes that"
        )


def _check_header(path: Path) -> None:
    """Polars would rename a second column of the same name; the owner has to."""
    import csv

    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        header = next(csv.reader(file), [])
    if not header:
        raise UsageError(f"expected a header and rows in {path}, got an empty file")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"expected every column of {path} once, got '{twice}' twice; rename one")


def _shown(column: Column) -> str:
    return ", ".join(map(str, column.levels[:6])) + (", ..." if len(column.levels) > 6 else "")


def _unknown(name: str, known: list[str], path: Path, what: str) -> UsageError:
    return UsageError(
        f"expected {what} '{name}' in {path}, got {', '.join(known[:12])}{'...' if len(known) > 12 else ''}"
        f"{did_you_mean(name, known)}"
    )
