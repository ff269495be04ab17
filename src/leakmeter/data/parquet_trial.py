"""Run as a process of its own: reads a Parquet file to its end, with limited memory. See `leakmeter/trial.py`."""

from __future__ import annotations

from leakmeter.trial import limited


def attempt(path: str) -> None:
    """Reads every row and throws it away."""
    import polars

    polars.scan_parquet(path).collect()


if __name__ == "__main__":
    import polars  # noqa: F401, before the limit: it is not the file's doing

    limited(attempt)
