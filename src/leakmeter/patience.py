"""How long a call of somebody else's code may take before it is given up.

In the main thread the call is ended by a signal, as soon as the interpreter has a say. Code that never lets it have
one, or that swallows the error, can be ended only with its process: whoever owns one looks at `overdue` from another
thread.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from leakmeter.errors import VictimError

PATIENCE = 600.0
"""Seconds that a victim may take for one answer, or to be loaded, and a worker to give a sign of life."""
_GRACE = 2.0


@dataclass(frozen=True)
class _Call:
    end: float
    sentence: str


_calls: list[_Call] = []


@contextmanager
def patient(seconds: float, what: str) -> Iterator[None]:
    """Raises VictimError within the block once it has taken that long.

    Args:
        seconds: how long.
        what: begins the sentence: "the victim shop.models:net".
    """
    sentence = f"{what} gave no answer within {seconds:g} s; look into it, or set a higher patience"
    call = _Call(time.monotonic() + seconds, sentence)
    armed = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGALRM) in _OURS
    _calls.append(call)
    if armed:
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # once more every second, for code that swallows errors
    try:
        yield
    finally:
        if armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
        _calls.remove(call)


def overdue() -> str | None:
    """What to say of a call that should have ended and has not."""
    now = time.monotonic()
    return next((call.sentence for call in tuple(_calls) if now > call.end + _GRACE), None)


def _ring(number: int, frame: object) -> None:  # noqa: ARG001
    late = next((call for call in _calls if time.monotonic() >= call.end - 0.01), None)
    if late is not None:
        raise VictimError(late.sentence)


_OURS = (signal.SIG_DFL, _ring)
