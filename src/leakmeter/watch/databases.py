"""A table of SQLite or PostgreSQL as the log: its rows pass through a file, a few thousand in memory at a time."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leakmeter.errors import UsageError, first_line
from leakmeter.watch.source import quoted

_MANY = 5000
_SQLITE = (".db", ".sqlite", ".sqlite3")


def is_database(log: str) -> bool:
    """Whether the log is a table of a database."""
    return log.startswith(("postgres://", "postgresql://")) or log.lower().endswith(_SQLITE)


@contextmanager
def exported(log: str, table: str | None, connection: Any) -> Iterator[Path]:
    """The table as a CSV file for the length of a `with` block."""
    if table is None:
        raise UsageError("a log in a database needs its table; give table in [log]")
    with TemporaryDirectory(prefix="leakmeter-log-") as folder:
        path = Path(folder) / "table.csv"
        if log.lower().endswith(_SQLITE):
            _from_sqlite(Path(log), table, path)
        else:
            _from_postgres(log, table, path, connection)
        yield path


def _from_sqlite(database: Path, table: str, path: Path) -> None:
    if not database.is_file():
        raise UsageError(f"there is no log {database}")
    try:
        with (
            closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source,
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


def _from_postgres(address: str, table: str, path: Path, connection: Any) -> None:
    import duckdb

    try:
        connection.execute("INSTALL postgres")
        connection.execute("LOAD postgres")
        connection.execute(f"ATTACH {quoted(address, chr(39))} AS log_source (TYPE postgres, READ_ONLY)")
        try:
            relation = f"log_source.{'.'.join(quoted(part) for part in table.split('.'))}"
            connection.execute(
                f"COPY (SELECT * FROM {relation}) TO {quoted(str(path), chr(39))} (HEADER, DELIMITER ',')"
            )
        finally:
            connection.execute("DETACH log_source")
    except duckdb.Error as error:
        where = address.rpartition("@")[2]  # what stands before it may be a password
        raise UsageError(
            f"cannot read the table '{table}' of {where} through DuckDB: {_safe(error, address)}"
        ) from error


def _safe(error: Exception, address: str) -> str:
    return first_line(error).replace(address, "the database")[:200]
