"""When the next request may leave: a rate limit, and pauses that a server asked for, shared by all threads."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

_FIRST, _LONGEST = 0.05, 10.0


class Abandoned(Exception):
    """The question this request belongs to has failed already."""


class Pace(Protocol):
    """Decides when requests leave; asked from several threads at once."""

    def wait(self, stop: threading.Event) -> None:
        """Returns when the next request may leave; Abandoned once `stop` is set."""

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long."""


@dataclass(frozen=True)
class Share:
    """One worker's part of limits that hold for many together."""

    pace: Pace
    connections: int
    """The most requests it may have under way at once."""


class OwnPace:
    """Lets one request go every `1 / rps` seconds."""

    def __init__(self, rps: float | None) -> None:
        self._interval = 1 / rps if rps else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, stop: threading.Event) -> None:
        """Returns when the next request may leave; a pause that begins meanwhile is kept, too."""
        while not stop.is_set():
            with self._lock:
                now = time.monotonic()
                if now >= self._next:
                    self._next = now + self._interval
                    return
                delay = self._next - now
            stop.wait(delay)
        raise Abandoned

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row: doubling, from a twentieth of a second to ten."""
    return float(min(_FIRST * 2.0 ** min(failures - 1, 30), _LONGEST))


def retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks to wait, given as a number or a date; None: it does not say."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value) if len(value) < 20 else math.inf
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # a year of twenty digits
        return None
    if date.tzinfo is None:  # the obsolete forms name no zone and mean GMT
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
