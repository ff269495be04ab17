"""The access log that some clients leave: JSON lines, CSV or Parquet, in the order of time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from leakmeter.errors import UsageError
from leakmeter.oracle.answer import Answer
from leakmeter.traffic.client import Client

COLUMNS = ("client", "time", "input", "answer")


def log_rows(clients: Iterable[Client]) -> Iterator[dict[str, Any]]:
    """One row a query, in the order of time."""
    parts = [(client, _shown(client.answer)) for client in clients]
    order = sorted(
        (float(moment), number, place)
        for number, (client, _) in enumerate(parts)
        for place, moment in enumerate(client.times)
    )
    for moment, number, place in order:
        client, shown = parts[number]
        values = _written(client.x[place].flatten().tolist())
        yield {"client": client.name, "time": moment, "input": values, "answer": shown[place]}


def write_log(path: Path, clients: Iterable[Client]) -> int:
    """Writes the log by its ending; how many rows it has."""
    writers = {".jsonl": _write_lines, ".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix not in writers:
        raise UsageError(f"expected a log that ends in .jsonl, .csv or .parquet, got {path.name}")
    rows = list(log_rows(clients))
    writers[path.suffix](path, rows)
    return len(rows)


def _shown(answer: Answer) -> list[Any]:
    if answer.view.kind == "labels":
        return answer.labels.tolist()
    values = answer.logits if answer.classes == 1 else answer.probs
    return [_written(row) for row in values.tolist()]


def _written(values: list[float]) -> list[float]:
    """As many digits as tell one float32 from every other: the log says what the client was shown."""
    return [float(f"{value:.9g}") for value in values]


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([json.dumps(v) if isinstance(v, list) else v for v in row.values()] for row in rows)


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import polars

    polars.DataFrame(rows).write_parquet(path)
