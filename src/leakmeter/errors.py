"""What can go wrong, sorted by who can mend it. Every message is one sentence: expected, got, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leakmeter.shown import shown


class LeakmeterError(Exception):
    """Base of every error raised on purpose; the command line prints its message without a traceback."""

    exit_code = 1

    def __str__(self) -> str:
        return shown(super().__str__())


class UsageError(LeakmeterError, ValueError):
    """The caller can mend this: a wrong name, shape, file, plan or flag."""

    exit_code = 2


class NotApplicable(UsageError):
    """An attack, view or defense that does not go with this victim or with another; an audit skips it and says why."""


class Inconclusive(LeakmeterError):
    """The audit cannot conclude: the victim misbehaves, a record is damaged. Never to be read as a pass."""

    exit_code = 4


class VictimError(Inconclusive):
    """The victim raised, or answered with NaN or with the wrong shape."""


class Stopped(LeakmeterError, KeyboardInterrupt):
    """Interrupted from the keyboard in a run directory that can be gone on with."""

    exit_code = 130

    def __init__(self, folder: Path) -> None:
        super().__init__(f"interrupted; this goes on, and asks nothing twice: leakmeter audit --resume {folder}")
        self.folder = folder


class BudgetExhausted(LeakmeterError):
    """Raised before the victim computes. An attack catches it and returns what it has."""

    def __init__(self, asked: int, remaining: int) -> None:
        super().__init__(f"the budget has {remaining} queries left and {asked} were asked; ask for at most {remaining}")
        self.asked = asked
        self.remaining = remaining

    def __reduce__(self) -> tuple[type[BudgetExhausted], tuple[int, int]]:
        return type(self), (self.asked, self.remaining)


def all_at_once(*checks: Callable[[], object]) -> None:
    """Runs every check, so that whoever must mend several things is told all of them at the first try."""
    wrong: list[str] = []
    for check in checks:
        try:
            check()
        except UsageError as error:
            wrong.append(str(error))
    if wrong:
        raise UsageError("; also, ".join(wrong))


def missing_extra(package: str, extra: str) -> UsageError:
    """The error for an optional package that is not installed."""
    return UsageError(
        f"this needs the package {package}, which is not installed; run: pip install 'leakmeter[{extra}]'"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message: enough for one sentence."""
    return (shown(str(error)).strip().splitlines() or ["no message"])[0]
