"""Our part of limits that hold for many workers together, for as long as a victim is opened under it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from leakmeter.oracle.limits import Lessor
from leakmeter.victims.remote.pace import Abandoned


class SharedPace:
    """Lets a request go when the lessor has a slot for it.

    A slot is used at its time or, by as much as the lessor is slow to answer, later; never before.
    """

    def __init__(self, lessor: Lessor) -> None:
        self._lessor = lessor

    def wait(self, stop: threading.Event) -> None:
        """Returns when the next request may leave; a pause that begins meanwhile is kept, too."""
        while not stop.is_set():
            slot = self._lessor.slot()
            if slot.delay <= 0:
                return
            stop.wait(slot.delay)
            if not stop.is_set() and self._lessor.stands(slot):
                return
        raise Abandoned

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long, from any worker."""
        self._lessor.hold(seconds)


@dataclass(frozen=True)
class Share:
    """How fast to ask, and over how many connections at once."""

    pace: SharedPace
    connections: int


_share: ContextVar[Share | None] = ContextVar("share", default=None)


@contextmanager
def sharing(share: Share | None) -> Iterator[None]:
    """A remote victim that is opened in this block keeps to `share`, from its first request on."""
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)


def current_share() -> Share | None:
    """What the victim being opened must keep to; None: its own settings."""
    return _share.get()
