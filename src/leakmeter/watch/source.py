"""The files of a log, each as a relation of text columns that DuckDB reads row by row.

Nothing is guessed: a file's ending says what it is, every field is read as text, and what cannot be read is left out
and counted. JSON is read line by line as text, so that one bad line costs one row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakmeter.errors import UsageError, first_line
from leakmeter.watch.settings import LogSettings

_KINDS = {"csv": "csv", "jsonl": "json", "ndjson": "json", "json": "json", "parquet": "parquet"}
_NAME = re.compile(r"\.(csv|jsonl|ndjson|json|parquet)(\.\d+)?(\.gz)?$", re.IGNORECASE)
_LINE = 1 << 24  # bytes of the longest line that is read
_TAIL = 1 << 16
_FORGIVING = "ignore_errors = true, store_rejects = true"  # bad lines are left out and counted
_LISTS = ("FLOAT[]", "DOUBLE[]", "INTEGER[]", "BIGINT[]", "TINYINT[]", "UTINYINT[]", "SMALLINT[]")


@dataclass(frozen=True)
class Relation:
    """SQL that gives client, time, input, answer, grp, net and honest as text; the two in the middle may be lists."""

    sql: str
    parameters: list[Any]
    rejects: bool = False
    """Whether the reader keeps a table of lines it could not take apart."""
    lists: tuple[str, ...] = ()
    """Which of input and answer are lists of numbers already."""


def log_files(log: Path) -> list[Path]:
    """The files of a log: itself, or all in the folder whose names end like a log's, rotated ones too."""
    if log.is_dir():
        files = sorted(path for path in log.rglob("*") if path.is_file() and _NAME.search(path.name))
        if not files:
            raise UsageError(f"expected .csv, .jsonl or .parquet files in {log}, found none")
        return files
    if not log.exists():
        raise UsageError(f"there is no log {log}; give a .csv, .jsonl or .parquet file, a folder of them or a database")
    if not _NAME.search(log.name):
        raise UsageError(f"expected a log that ends in .csv, .jsonl or .parquet, .db or .sqlite, got {log.name}")
    return [log]


def relation(connection: Any, path: Path, log: LogSettings, strict: bool = True) -> Relation:
    """How to read one file.

    Strictly, a CSV line with too many fields is left out, and DuckDB refuses a whole file for one carriage return
    inside a line: then the fields behind the last named one are ignored instead.
    """
    found = _NAME.search(path.name)
    assert found is not None
    kind = _KINDS[found[1].lower()]
    if kind == "json":
        return _json(path, log)
    return _csv(path, log, strict) if kind == "csv" else _parquet(connection, path, log)


def inputs_of(log: LogSettings) -> tuple[str, ...]:
    """The columns that hold the query."""
    return log.columns or (log.input,)


def _wanted(log: LogSettings) -> dict[str, str | None]:
    """Our names and those in the log."""
    return {
        "client": log.client,
        "time": log.time,
        "answer": log.answer,
        "grp": log.group,
        "net": log.network,
        "honest": log.honest_column,
    }


def _json(path: Path, log: LogSettings) -> Relation:
    names = {ours: theirs for ours, theirs in _wanted(log).items() if theirs is not None}
    pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in (*names.values(), *inputs_of(log))]
    picked = [f"f[{place}] AS {ours}" for place, ours in enumerate(names, 1)]
    picked += [f"NULL AS {ours}" for ours in _wanted(log) if ours not in names]
    first = len(names) + 1
    values = [f"f[{first + place}]" for place in range(len(inputs_of(log)))]
    picked.append(f"{_joined(values) if log.columns else values[0]} AS input")
    return Relation(
        f"SELECT {', '.join(picked)} FROM "
        "(SELECT json_extract_string(CASE WHEN json_valid(line) THEN line END, ?) AS f "
        "FROM read_csv(?, columns = {'line': 'VARCHAR'}, "
        "delim = '\x01', quote = '', escape = '', header = false, "
        f"auto_detect = false, {_FORGIVING}, strict_mode = false, max_line_size = {_LINE}))",
        [pointers, str(path)],
        rejects=True,
    )


def _csv(path: Path, log: LogSettings, strict: bool) -> Relation:
    header = _header(path)
    picked, parameters = _picked(header, log, path), []
    types = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(header)))
    unfinished, where = _unfinished(path, len(header)), ""
    if unfinished is not None:
        where = " WHERE NOT (" + " AND ".join(f"coalesce(c{k}, '') = ?" for k in range(len(unfinished))) + ")"
        parameters = list(unfinished)
    return Relation(
        f"SELECT {picked} FROM read_csv(?, columns = {{{types}}}, delim = ',', quote = '\"', escape = '\"', skip = 1, "
        f"header = false, auto_detect = false, {_FORGIVING}, strict_mode = {strict}, null_padding = false, "
        f"max_line_size = {_LINE}){where}",
        [str(path), *parameters],
        rejects=True,
    )


def _parquet(connection: Any, path: Path, log: LogSettings) -> Relation:
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    kinds = {row[0]: row[1] for row in described}

    def flat(name: str) -> bool:
        return kinds[name] in _LISTS

    def taken(name: str) -> str:
        return f"CAST({quoted(name)} AS {'FLOAT[]' if flat(name) else 'VARCHAR'})"

    sql = f"SELECT {_named(list(kinds), log, path, taken)} FROM read_parquet(?)"
    lists = {"answer": flat(log.answer), "input": not log.columns and flat(log.input)}
    return Relation(sql, [str(path)], lists=tuple(name for name, yes in lists.items() if yes))


def _picked(header: Sequence[str], log: LogSettings, path: Path) -> str:
    places = {name: f"c{place}" for place, name in enumerate(header)}
    return _named(header, log, path, lambda name: places[name])


def _named(header: Sequence[str], log: LogSettings, path: Path, taken: Any) -> str:
    """What to select from a file with these columns."""
    names = _wanted(log)
    for name in (*(name for name in names.values() if name is not None), *inputs_of(log)):
        if name not in header:
            raise UsageError(
                f"expected a column '{name}' in {path.name}, got {', '.join(map(str, header[:12]))}; say in [log] what "
                "it is called"
            )
    picked = [f"{'NULL' if theirs is None else taken(theirs)} AS {ours}" for ours, theirs in names.items()]
    values = [taken(name) for name in inputs_of(log)]
    return ", ".join([*picked, f"{_joined(values) if log.columns else values[0]} AS input"])


def _joined(values: Sequence[str]) -> str:
    return f"[{', '.join(f'CAST({value} AS VARCHAR)' for value in values)}]"


def _header(path: Path) -> list[str]:
    import gzip

    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as file:  # bytes: what lies behind the first line may be no text
            header = next(csv.reader([file.readline(_TAIL).decode("utf-8-sig")]), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read the first line of {path.name}: {first_line(error)}") from error
    if len(set(header)) < len(header) or not header:
        raise UsageError(f"expected the names of columns, each once, in the first line of {path.name}")
    return header


def _unfinished(path: Path, columns: int) -> list[str] | None:
    """The fields of a last line without an end: somebody may be writing it, and half a number is a number too."""
    if path.name.lower().endswith(".gz"):
        return None
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        last = file.read().rpartition(b"\n")[2]
    fields = next(csv.reader([last.decode("utf-8", "replace")]), []) if last else []
    return fields if len(fields) == columns else None


def quoted(name: str, mark: str = '"') -> str:
    """A name as SQL writes it."""
    return mark + name.replace(mark, mark * 2) + mark
