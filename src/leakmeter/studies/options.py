"""What a study is asked for: where it writes, its seeds, how large it is, on which data and device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakmeter.progress import SILENT, Progress
from leakmeter.studies.record import Record


@dataclass(frozen=True)
class StudyOptions:
    """The one argument of every study."""

    out: Path
    """The folder for its JSON and figures."""
    seed: int = 0
    seeds: int = 3
    quick: bool = False
    """A small version that shows the shape only."""
    data_dir: Path | None = None
    device: str = "cpu"
    progress: Progress = SILENT
    victim: str | None = None
    """A model to look at instead of the study's own (smoothgrad-maps)."""
    data: str | None = None
    """The dataset that goes with it; for CoDFe's studies one of theirs."""

    @property
    def numbers(self) -> range:
        """The seeds."""
        return range(self.seed, self.seed + self.seeds)

    def record(self, name: str, **about: Any) -> Record:
        """The study's JSON, with the command that makes it."""
        asked = {"--seed": self.seed, "--seeds": self.seeds, "--victim": self.victim, "--data": self.data}
        flags = [f"{flag} {value}" for flag, value in asked.items() if value is not None] + ["--quick"] * self.quick
        return Record(self.out, name, f"leakmeter study {name} {' '.join(flags)}", about)
