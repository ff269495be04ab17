"""Who pays when a question is sent again.

A remote victim may have answered the first time, so the repeat is a query of its own and must be counted before it
leaves. The oracle says where, around each question; a context variable carries it past whatever defenses lie between,
which therefore cannot lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Charge = Callable[[int], None]
"""Counts that many rows once more, or raises BudgetExhausted: then they must not be sent."""


def _nobody(rows: int) -> None:
    """Outside an oracle nothing is counted."""


_charge: ContextVar[Charge] = ContextVar("charge", default=_nobody)


@contextmanager
def charged_to(charge: Charge) -> Iterator[None]:
    """Within this block repeats are counted by `charge`."""
    token = _charge.set(charge)
    try:
        yield
    finally:
        _charge.reset(token)


def current_charge() -> Charge:
    """To be taken before work is handed to other threads, which do not inherit it."""
    return _charge.get()
