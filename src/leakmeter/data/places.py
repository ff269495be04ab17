"""Where datasets are looked for, and where they are put."""

from __future__ import annotations

import os
from pathlib import Path

DEBIAN = Path("/usr/share/datasets")
"""Debian's dataset packages, such as dataset-fashion-mnist, install below this folder."""


def cache() -> Path:
    """The user's cache folder for datasets."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leakmeter"


def roots(data_dir: Path | None = None) -> list[Path]:
    """The folders searched, first wins: the given one, LEAKMETER_DATA, the user's cache, Debian's.

    Each holds a folder per dataset, named after it. Downloads go to the first.
    """
    named = [data_dir, os.environ.get("LEAKMETER_DATA")]
    return [*(Path(root).expanduser() for root in named if root), cache(), DEBIAN]
