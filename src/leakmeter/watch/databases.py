"""A table of SQLite or PostgreSQL as the log: its rows pass through a file, a few thousand in memory at a time.

DuckDB has extensions for both, which it fetches from a server of its own, one for each of its versions. Python's
`sqlite3` and psycopg (extra `[postgres]`) are at hand where that server is not.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from leakmeter.errors import UsageError, first_line, missing_extra
from leakmeter.files import writing
from leakmeter.watch.source import quoted

_MANY = 5000
_PATIENCE = 30  # seconds to reach a server
_SQLITE = (".db", ".sqlite", ".sqlite3")


def is_database(log: str) -> bool:
    """Whether the log is a table of a database."""
    return log.startswith(("postgres://", "postgresql://")) or log.lower().endswith(_SQLITE)


@contextmanager
def exported(log: str, table: str | None, folder: Path) -> Iterator[Path]:
    """The table as a CSV file in the folder for the length of a `with` block."""
    if table is None:
        raise UsageError("a log in a database needs its table; give table in [log]")
    path = folder / "table.csv"
    try:
        with writing(folder):
            if log.lower().endswith(_SQLITE):
                _from_sqlite(Path(log), table, path)
            else:
                _from_postgres(log, table, path)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _from_sqlite(database: Path, table: str, path: Path) -> None:
    if not database.is_file():
        raise UsageError(f"there is no log {database}")
    try:
        with (
            closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as source,
            path.open("w", newline="", encoding="utf-8", errors="replace") as file,
        ):
            source.text_factory = lambda raw: raw.decode("utf-8", "replace")
            cursor = source.execute(f"SELECT * FROM {quoted(table)}")
            writer = csv.writer(file)
            writer.writerow([column[0] for column in cursor.description])
            while rows := cursor.fetchmany(_MANY):
                writer.writerows(rows)
    except sqlite3.Error as error:
        raise UsageError(f"cannot read the table '{table}' of {database}: {first_line(error)}") from error


def _from_postgres(address: str, table: str, path: Path) -> None:
    """By COPY, which the server streams."""
    try:
        import psycopg
    except ImportError as error:
        raise missing_extra("psycopg", "postgres") from error
    name = ".".join(quoted(part) for part in table.split("."))
    command = f"COPY (SELECT * FROM {name}) TO STDOUT (FORMAT csv, HEADER, ENCODING 'UTF8')"
    try:
        with closing(psycopg.connect(address, connect_timeout=_PATIENCE)) as source, path.open("wb") as file:
            source.read_only = True
            source.execute("SET datestyle = 'ISO'")
            with source.cursor() as cursor, cursor.copy(command.encode()) as rows:
                file.writelines(rows)
    except psycopg.Error as error:
        where = address.rpartition("@")[2]  # what stands before it may be a password
        raise UsageError(f"cannot read the table '{table}' of {where}: {_safe(error, address)}") from error


def _safe(error: Exception, address: str) -> str:
    return first_line(error).replace(address, "the database")[:200]
