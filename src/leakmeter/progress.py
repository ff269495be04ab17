"""Progress as an observer that is handed in: the library never prints, the command line chooses what shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """One bar: moved forward by what does the work."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Some steps are done; `note` is shown beside the bar."""


class Progress(Protocol):
    """Somewhere to show bars and to write lines."""

    def task(self, title: str, total: int | None) -> AbstractContextManager[Task]:
        """Opens a bar for the length of a `with` block."""

    def say(self, line: str) -> None:
        """Writes one line above the bars."""


class SilentTask:
    """Goes nowhere."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Ignores the step."""


class Silent:
    """The default: shows nothing."""

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Task]:  # noqa: ARG002
        """A task that shows nothing."""
        yield SilentTask()

    def say(self, line: str) -> None:
        """Says nothing."""


SILENT = Silent()
