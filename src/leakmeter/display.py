"""Progress on a terminal: bars with rate and time left, plain lines where there is no terminal, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape

from leakmeter.errors import UsageError
from leakmeter.progress import SILENT, Progress, Task
from leakmeter.shown import shown

MODES = ("rich", "plain", "none")
_QUIET_SECONDS = 2.0  # nothing shorter than this deserves a line


def make_display(mode: str | None) -> Progress:
    """The display called `mode`; without one, rich on a terminal and plain elsewhere."""
    mode = mode or ("rich" if sys.stderr.isatty() else "plain")
    if mode not in MODES:
        raise UsageError(f"expected --display to be one of {', '.join(MODES)}, got '{mode}'")
    return SILENT if mode == "none" else RichDisplay() if mode == "rich" else PlainDisplay()


def as_progress(progress: Progress | bool) -> Progress:
    """What was handed in; True: bars where somebody looks, in a terminal or a notebook, and nothing elsewhere."""
    if not isinstance(progress, bool):
        return progress
    return make_display(None) if progress and (sys.stderr.isatty() or _in_notebook()) else SILENT


def _in_notebook() -> bool:
    """Whether this runs in a kernel; nothing of it is imported where nobody has."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class PlainDisplay:
    """A line when a task has run for a while, and when it ends."""

    def say(self, line: str) -> None:
        """One line on standard error."""
        sys.stderr.write(f"{shown(line)}\n")
        sys.stderr.flush()

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Task]:
        """A task told in lines, at growing intervals."""
        task = _PlainTask(self, title, total)
        yield task
        if task.shown:
            self.say(f"{title}: done, {task.done:,} in {time.monotonic() - task.start:.0f} s")


class _PlainTask:
    def __init__(self, display: PlainDisplay, title: str, total: int | None) -> None:
        self.display, self.title, self.total = display, title, total
        self.done, self.shown, self.start, self.wait = 0, False, time.monotonic(), 10.0
        self.next = self.start + self.wait

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.done += steps
        now = time.monotonic()
        if now < self.next:
            return
        self.wait = min(120.0, self.wait * 1.5)
        self.next, self.shown = now + self.wait, True
        rate = self.done / (now - self.start)
        left = f", {(self.total - self.done) / rate:.0f} s left" if self.total and rate > 0 else ""
        of = f" of {self.total:,}" if self.total else ""
        self.display.say(f"{self.title}: {self.done:,}{of} ({pace(rate)}{left}) {note}".rstrip())


def pace(rate: float) -> str:
    """How fast something goes, from steps a second: of slow ones, how long one takes."""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.5 or not rate else f"{1 / rate:,.0f} s each"


class RichDisplay:
    """Bars that appear when a task takes longer than two seconds, all in one live block."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._open = 0

    def say(self, line: str) -> None:
        """One line above the bars."""
        self._bars.console.print(shown(line), highlight=False, markup=False)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Task]:
        """A bar."""
        if self._open == 0:
            self._bars.start()
        self._open += 1
        bar = self._bars.add_task(escape(shown(title)), total=total, visible=False, note="", rate="")
        try:
            yield _RichTask(self._bars, bar)
        finally:
            self._bars.remove_task(bar)
            self._open -= 1
            if self._open == 0:
                self._bars.stop()


class _RichTask:
    def __init__(self, bars: object, bar: object) -> None:
        self._bars, self._bar = bars, bar
        self._start, self._done, self._drawn = time.monotonic(), 0, 0.0

    def advance(self, steps: int = 1, note: str = "") -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._drawn < 0.1:
            return
        seconds, self._drawn = now - self._start, now
        self._bars.update(  # type: ignore[attr-defined]
            self._bar,
            completed=self._done,
            visible=seconds > _QUIET_SECONDS,
            note=escape(shown(note)),
            rate=pace(self._done / max(seconds, 1e-9)),
        )
