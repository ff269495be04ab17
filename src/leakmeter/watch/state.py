"""What is known of a log after every night: one DuckDB file, changed by whole transactions only.

A row is known by its content, so that a log read again, a rotated file or a repeated line adds nothing, and a kill at
any moment costs at most the file that was being read. Measurements are kept by the rows they were made from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leakmeter.errors import UsageError, first_line, missing_extra
from leakmeter.files import writing
from leakmeter.settings import Settings
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.parsing import rows_sql
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.source import Relation, relation

_PARTS = 16  # in which repeated rows are looked for, so that memory stays flat
_TABLES = """
CREATE TABLE IF NOT EXISTS queries (client VARCHAR, grp VARCHAR, net VARCHAR, honest BOOLEAN, t DOUBLE,
    "values" FLOAT[], path VARCHAR, probs FLOAT[], asked UBIGINT, label INTEGER, digest UBIGINT, file VARCHAR);
CREATE TABLE IF NOT EXISTS files (name VARCHAR PRIMARY KEY, size BIGINT, changed BIGINT, lines BIGINT, broken BIGINT,
    repeated BIGINT);
CREATE TABLE IF NOT EXISTS measured (key VARCHAR PRIMARY KEY, content VARCHAR);
CREATE TABLE IF NOT EXISTS facts (key VARCHAR PRIMARY KEY, content VARCHAR);
"""
_COLUMNS = 'client, grp, net, honest, t, "values", path, probs, asked, label, digest'


class Reading(Settings):
    """What reading the log came to; every count is of this log as it is now."""

    files: int = 0
    unchanged: int = 0
    """Files that were read before and have not changed."""
    rotated: int = 0
    """Files that are shorter than they were: what was read of them is kept."""
    unreadable: tuple[str, ...] = ()
    lines: int = 0
    broken: int = 0
    """Lines without a client, a time, an input or an answer that fit the model; half-written ones too."""
    repeated: int = 0
    """Rows that were there before with the same client, time, input and answer."""
    new: int = 0
    """Rows that no earlier run has seen."""


class State:
    """The open state; one process at a time."""

    def __init__(self, folder: Path, memory: str = "450MB", threads: int = 2) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise missing_extra("duckdb", "watch") from error
        self.folder = folder
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            self.connection = duckdb.connect(str(folder / "watch.duckdb"))
        except duckdb.Error as error:
            raise UsageError(
                f"cannot open the state in {folder}: {first_line(error)[:200]}; wait for whoever works there, or give "
                "another --state"
            ) from error
        self.errors = duckdb.Error
        for setting in (f"memory_limit = '{memory}'", f"threads = {threads}", "preserve_insertion_order = false"):
            self.connection.execute(f"SET {setting}")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute(_TABLES)
        self._hash_anew(duckdb.__version__)

    def _hash_anew(self, version: str) -> None:
        """Rows are told apart by DuckDB's own hashes, which another version of it may make differently."""
        run, text = self.connection.execute, json.dumps(version)
        known = run("SELECT content FROM facts WHERE key = 'duckdb'").fetchone()
        if known is not None and known[0] == text:
            return
        run("BEGIN")
        run('UPDATE queries SET asked = CASE WHEN "values" IS NULL THEN hash(path) ELSE hash("values") END')
        run("UPDATE queries SET digest = hash(client, t, asked, label, probs)")
        run("INSERT OR REPLACE INTO facts VALUES ('duckdb', ?)", [text])
        run("COMMIT")

    def close(self) -> None:
        """Lets go of the file."""
        self.connection.close()

    def belongs_to(self, facts: dict[str, Any]) -> None:
        """Refuses a state that was made for another model or another way to read the log."""
        for key, value in facts.items():
            text = json.dumps(value)
            known = self.connection.execute("SELECT content FROM facts WHERE key = ?", [key]).fetchone()
            if known is None:
                self.connection.execute("INSERT INTO facts VALUES (?, ?)", [key, text])
            elif known[0] != text:
                raise UsageError(
                    f"the state in {self.folder} was made with {key} {known[0]}, and it is now {text}; give "
                    "another --state"
                )

    def read(self, files: list[tuple[str, Path]], log: LogSettings, spec: VictimSpec, always: bool = False) -> Reading:
        """Takes in every file that is new or has changed; each file wholly or not at all."""
        tally = Reading(files=len(files))
        for name, path in files:
            stat = path.stat()
            known = self.connection.execute("SELECT size, changed FROM files WHERE name = ?", [name]).fetchone()
            shorter = known is not None and stat.st_size < known[0]
            changes: dict[str, Any] = {"rotated": tally.rotated + shorter}
            if not always and known == (stat.st_size, stat.st_mtime_ns):
                changes["unchanged"] = tally.unchanged + 1
            else:
                try:
                    new = self._take(name, path, log, spec, (stat.st_size, stat.st_mtime_ns, shorter))
                    changes["new"] = tally.new + new
                except self.errors as error:
                    self._roll_back()
                    changes["unreadable"] = (*tally.unreadable, f"{name}: {first_line(error)[:160]}")
            tally = tally.model_copy(update=changes)
        return self._counted(tally, [name for name, _ in files])

    def _roll_back(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except self.errors:
            return

    def _counted(self, tally: Reading, names: list[str]) -> Reading:
        row = self.connection.execute(
            "SELECT coalesce(sum(lines), 0), coalesce(sum(broken), 0), coalesce(sum(repeated), 0) FROM files "
            "WHERE list_contains(?, name)",
            [names],
        ).fetchone()
        assert row is not None
        return tally.model_copy(update={"lines": int(row[0]), "broken": int(row[1]), "repeated": int(row[2])})

    def _take(self, name: str, path: Path, log: LogSettings, spec: VictimSpec, seen: tuple[int, int, bool]) -> int:
        """One file in one transaction; how many rows were new."""
        run = self.connection.execute
        try:
            source = self._stage(path, log, spec)
        except self.errors:
            self._roll_back()
            source = self._stage(path, log, spec, strict=False)
        rejected = self._one("SELECT count(DISTINCT line) FROM reject_errors") if source.rejects else 0
        lines, good = self._one("SELECT count(*) FROM staging"), self._one("SELECT count(*) FROM staging WHERE ok")
        own = 0 if seen[2] else self._one("SELECT count(*) FROM queries WHERE file = ?", [name])
        new = self._insert_new(name, good)
        broken, repeated = lines + rejected - good, max(0, good - new - own)
        values = [name, *seen[:2], lines + rejected, broken, repeated]
        run("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", values)
        run("DROP TABLE staging")
        if source.rejects:
            run("DROP TABLE IF EXISTS reject_errors")
            run("DROP TABLE IF EXISTS reject_scans")
        run("COMMIT")
        return new

    def _stage(self, path: Path, log: LogSettings, spec: VictimSpec, strict: bool = True) -> Relation:
        """Begins a transaction with all rows of a file in a table of their own."""
        source = relation(self.connection, path, log, strict)
        self.connection.execute("BEGIN")
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE staging AS {rows_sql(source, spec, bool(log.columns))}",
            source.parameters,
        )
        return source

    def _insert_new(self, name: str, good: int) -> int:
        """The rows of the staging table that are not known, each once."""
        run = self.connection.execute
        run("CREATE OR REPLACE TEMP TABLE kept (place BIGINT)")
        for part in range(_PARTS):
            run(
                f"INSERT INTO kept SELECT min(rowid) FROM staging s WHERE ok AND digest % {_PARTS} = {part} "
                f"AND NOT EXISTS (SELECT 1 FROM queries q WHERE q.digest % {_PARTS} = {part} AND q.digest = s.digest) "
                "GROUP BY digest"
            )
        new = self._one("SELECT count(*) FROM kept")
        some = "ok" if new == good else "rowid IN (SELECT place FROM kept)"
        if new:
            run(f"INSERT INTO queries SELECT {_COLUMNS}, ? FROM staging WHERE {some}", [name])
        run("DROP TABLE kept")
        return new

    def _one(self, sql: str, parameters: list[Any] | None = None) -> int:
        found = self.connection.execute(sql, parameters or []).fetchone()
        return 0 if found is None or found[0] is None else int(found[0])

    def kept(self, key: str) -> Any:
        """The measurement of that key; None: not made yet."""
        found = self.connection.execute("SELECT content FROM measured WHERE key = ?", [key]).fetchone()
        return None if found is None else json.loads(found[0])

    def keep(self, key: str, content: Any) -> None:
        """Keeps a measurement; a kill after this does not lose it."""
        self.connection.execute("INSERT OR REPLACE INTO measured VALUES (?, ?)", [key, json.dumps(content)])
