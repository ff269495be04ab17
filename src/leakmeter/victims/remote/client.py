"""One HTTP client a victim: sends, repeats what failed, and counts every repeat that may be a second query.

What became of a request decides what a repeat costs. Refused (429, or 503 with Retry-After) and never connected: the
model did not compute, so the repeat is free. Everything else that brought no usable answer (a timeout, a dropped
connection, another 5xx, a body that is cut short, holds NaN or has the wrong shape): it may have computed, so the
repeat is charged before it is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from leakmeter.errors import UsageError, VictimError, missing_extra
from leakmeter.victims.remote.access import check_address, proxy_for, with_key, without_query
from leakmeter.victims.remote.pace import OwnPace, Pace, backoff, retry_after
from leakmeter.victims.remote.settings import RemoteSettings

if TYPE_CHECKING:
    from leakmeter.victims.remote.exchange import Reply

T = TypeVar("T")
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
SLACK = 1 << 20
"""Bytes that any answer may have beside its numbers."""
_QUOTED = 200  # characters of what a server says about an error


class BadAnswer(ValueError):
    """An answer that cannot be read; the message ends the sentence "the last time ..."."""


class Misdescribed(BadAnswer):
    """An answer that the facts given do not fit: before any was understood, it would come again."""


class Unexplained(Misdescribed):
    """An answer whose explanation is not where, or not as large as, it was said to be."""


class Unanswered(VictimError):
    """The server takes no such request, or fails at it each time."""


class NotFound(VictimError):
    """The server knows no such address."""


class _Refused(Exception):
    """The server did not compute, and says when to come back (None: it does not say)."""

    def __init__(self, status: int, after: float | None) -> None:
        super().__init__(f"it answered {status}")
        self.after = after


class _Failed(Exception):
    """No usable answer."""

    def __init__(self, why: str, *, computed: bool) -> None:
        super().__init__(why)
        self.computed = computed
        """Whether the model may have computed an answer."""


class Client:
    """Sends requests to one host, from several threads at once.

    Args:
        url: the address that is asked.
        settings: limits, and who authorised asking a host that is not this machine.
        headers: sent with every request; `{key}` stands for the key.
        pace: when requests leave; None: as the settings say.
    """

    def __init__(
        self,
        url: str,
        settings: RemoteSettings,
        headers: Mapping[str, str] | None = None,
        pace: Pace | None = None,
    ) -> None:
        try:
            from leakmeter.victims.remote.exchange import Connections
        except ImportError as error:
            raise missing_extra(error.name or "httpx", "http") from error
        local = check_address(url, settings.authorized_by)
        self.where = without_query(url)
        self._settings, self._pace = settings, pace or OwnPace(settings.rps)
        self._headers = list(with_key(_HEADERS | dict(headers or {}), settings.key_env).items())
        # No cookies, and no redirects, which would carry the key to a host nobody authorised.
        self._connections = Connections(url, None if local else proxy_for(url))

    def abort(self) -> None:
        """Ends the requests that are under way, in all threads; whoever sent them gets an error."""
        self._connections.abort()

    def get(self, url: str, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a document; it is about the model, so nothing is charged."""
        return self._ask(lambda: self._send("GET", url, b"", SLACK), read, lambda: None, threading.Event())

    def post(
        self,
        url: str,
        body: bytes,
        read: Callable[[bytes], T],
        charge: Callable[[], None],
        stop: threading.Event,
        most: int,
    ) -> T:
        """What `read` makes of the answer.

        Args:
            url: where the request goes, at the host of this client.
            body: its JSON.
            read: reads an answer, or raises BadAnswer.
            charge: counts the queries once more, before they are sent again.
            stop: ends it between two tries.
            most: the most bytes that an answer can need.
        """
        return self._ask(lambda: self._send("POST", url, body, most), read, charge, stop)

    def _ask(
        self, send: Callable[[], bytes], read: Callable[[bytes], T], charge: Callable[[], None], stop: threading.Event
    ) -> T:
        failures, refusals, waited, owed = 0, 0, 0.0, False
        while True:
            self._pace.wait(stop)
            if owed:
                charge()
                owed = False
            start = time.monotonic()
            try:
                return _understood(read, send())
            except _Refused as refusal:
                refusals += 1
                delay = backoff(refusals) if refusal.after is None else max(refusal.after, backoff(1))
                waited += delay + time.monotonic() - start
                if waited > self._settings.patience:
                    raise VictimError(self._impatient(delay)) from None
                self._pace.hold(delay)
            except _Failed as failure:
                failures += 1
                if failures > self._settings.retries:
                    raise Unanswered(
                        f"the victim at {self.where} gave no usable answer in {failures} tries; the last time {failure}"
                    ) from failure
                owed = owed or failure.computed
                stop.wait(backoff(failures))

    def _impatient(self, delay: float) -> str:
        return (
            f"the victim at {self.where} refuses requests and asks to wait {delay:.0f} s more, beyond the "
            f"{self._settings.patience:.0f} s of patience; set a lower rps, or go on later with --resume"
        )

    def _send(self, method: str, url: str, body: bytes, most: int) -> bytes:
        from leakmeter.victims.remote.exchange import Broken, Late, NoConnection, path_of

        deadline = time.monotonic() + self._settings.timeout
        try:
            reply = self._connections.exchange(method, path_of(url), self._headers, body, deadline, most)
        except NoConnection as error:
            raise _Failed(str(error), computed=False) from error
        except Late as error:
            raise _Failed(f"no whole answer came within {self._settings.timeout:g} s", computed=True) from error
        except Broken as error:
            raise _Failed(str(error), computed=True) from error
        self._check_status(reply)
        return reply.content

    def _check_status(self, reply: Reply) -> None:
        """Returns for an answer; everything else is an error of its own."""
        status, content = reply.status, reply.content
        after = retry_after(reply.headers.get("retry-after"))
        if status == 429 or (status == 503 and after is not None):
            raise _Refused(status, after)
        if status == 408 or status >= 500:
            raise _Failed(f"it answered {status}{self._quote(content)}", computed=True)
        if status in (401, 403):
            key = self._settings.key_env
            hint = "name the environment variable that holds the key with key_env" if key is None else f"check {key}"
            raise UsageError(f"the victim at {self.where} denies access ({status}); {hint}")
        if status == 404:
            raise NotFound(f"there is no model at {self.where} (404); check the address")
        if 300 <= status < 400:
            raise VictimError(f"the victim at {self.where} redirects elsewhere ({status}); give the final address")
        if status == 413:
            raise VictimError(
                f"the victim at {self.where} finds requests too large (413); send fewer rows in each: set rows, on the "
                "command line --rows 8"
            )
        if status >= 400:
            raise Unanswered(f"the victim at {self.where} rejects requests with {status}{self._quote(content)}")

    def _quote(self, content: bytes) -> str:
        """What the server says; nothing where a key was sent, for it may echo that."""
        if self._settings.key_env is not None:
            return ""
        said = " ".join(content[:_QUOTED].decode(errors="replace").split())
        return f", saying {said}" if said.isprintable() and said else ""


def _understood(read: Callable[[bytes], T], content: bytes) -> T:
    try:
        return read(content)
    except BadAnswer as error:
        raise _Failed(str(error), computed=True) from error
