"""HTTP/1.1 with one deadline: whatever a server sends, and however slowly, an exchange ends in time and in memory.

Every wait on the socket is for no longer than what is left of the deadline, so that neither dribbled headers nor
endless interim answers outlast it. A body is read up to what the caller says an answer can need, and never unpacked.
Each exchange has a connection of its own: on one that is kept, an answer nobody asked for may come at any moment, and
would be taken for the next.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import unquote

import h11
import httpx

from leakmeter.errors import UsageError

S = TypeVar("S", bound=socket.socket)
Headers = Sequence[tuple[str, str]]
_PIECE = 1 << 16
_PORTS = {"http": 80, "https": 443}


class NoConnection(Exception):
    """Nothing was sent."""


class Late(Exception):
    """The deadline passed."""


class Broken(Exception):
    """The connection broke, or what came was no answer; the message ends the sentence "the last time ..."."""


@dataclass(frozen=True)
class Reply:
    """A whole answer; the names of its headers are in small letters."""

    status: int
    headers: dict[str, str]
    content: bytes


class _Connection:
    """One open connection, for one exchange."""

    def __init__(self, open_socket: socket.socket) -> None:
        self.socket = open_socket
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_PIECE)

    def exchange(self, request: h11.Request, body: bytes, deadline: float, most: int) -> Reply:
        """Sends a request and reads its answer."""
        parts: list[Any] = [request, h11.Data(data=body), h11.EndOfMessage()]
        broken: OSError | None = None
        try:
            self._send(b"".join(self._state.send(part) or b"" for part in parts), deadline)
        except TimeoutError as error:
            raise Late from error
        except OSError as error:  # it may have refused before it heard all
            broken = error
        try:
            return self._read(deadline, most)
        except TimeoutError as error:
            raise Late from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise Broken(f"the connection broke ({type(broken or error).__name__})") from error

    def _send(self, content: bytes, deadline: float) -> None:
        view = memoryview(content)
        while view:
            self.socket.settimeout(_left(deadline))
            view = view[self.socket.send(view[:_PIECE]) :]

    def _read(self, deadline: float, most: int) -> Reply:
        response = self._event(deadline)
        while isinstance(response, h11.InformationalResponse):
            response = self._event(deadline)
        if not isinstance(response, h11.Response):
            raise Broken("the connection broke off")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]
        if any(name == "content-encoding" and value.strip().lower() != "identity" for name, value in headers):
            raise Broken("its answer was compressed, which was not asked for")
        if {"content-length", "transfer-encoding"} <= {name for name, _ in headers}:
            raise Broken("its answer had two lengths")
        parts, length = [], 0
        while isinstance(event := self._event(deadline), h11.Data):
            length += len(event.data)
            if length > most:
                raise Broken(f"its answer had more than the {most:,} bytes that one can need")
            parts.append(bytes(event.data))
        return Reply(response.status_code, dict(headers), b"".join(parts))

    def _event(self, deadline: float) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            self.socket.settimeout(_left(deadline))
            self._state.receive_data(self.socket.recv(_PIECE))
        return event


class Connections:
    """Connections to one host, asked from several threads at once.

    Args:
        url: any address of the host.
        proxy: the address of the proxy that leads there.
    """

    def __init__(self, url: str, proxy: str | None = None) -> None:
        self._url, self._proxy = httpx.URL(url), None if proxy is None else _proxy(proxy)
        self._lock = threading.Lock()
        self._busy: set[socket.socket] = set()

    def exchange(self, method: str, path: str, headers: Headers, body: bytes, deadline: float, most: int) -> Reply:
        """Asks and reads the answer.

        Args:
            method: GET or POST.
            path: what follows the host in the address.
            headers: besides those that the protocol needs.
            body: what is sent.
            deadline: on the clock of `time.monotonic`.
            most: the most bytes of an answer.
        """
        whole = _sent(method, self._target(path), self._headers(headers, body))
        connection = _Connection(self._connect(deadline))
        try:
            return connection.exchange(whole, body, deadline, most)
        finally:
            self._forget(connection.socket)

    def abort(self) -> None:
        """Ends whatever is under way, at once."""
        with self._lock:
            for each in self._busy:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    def _forget(self, used: socket.socket) -> None:
        with self._lock:
            self._busy.discard(used)
        used.close()

    def _connect(self, deadline: float) -> socket.socket:
        to = self._proxy or self._url
        host, port = to.raw_host.decode(), to.port or _PORTS[to.scheme]
        opened: socket.socket | None = None
        try:
            for family, kind, number, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                opened = self._watched(socket.socket(family, kind, number))
                try:
                    opened.settimeout(_left(deadline))
                    opened.connect(place)
                    break
                except ConnectionError:  # a host may have another address that answers
                    self._forget(opened)
                    opened = None
            if opened is None:
                raise ConnectionRefusedError
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._secured(opened, deadline)
        except (OSError, Late, Broken, h11.RemoteProtocolError) as error:
            if opened is not None:
                self._forget(opened)
            raise NoConnection(f"no connection could be made ({type(error).__name__})") from error

    def _secured(self, opened: socket.socket, deadline: float) -> socket.socket:
        """Through the proxy and with encryption, where there is any."""
        if self._url.scheme != "https":
            return opened
        if self._proxy is not None:
            host = f"{self._url.raw_host.decode()}:{self._url.port or 443}"
            tunnel = _sent("CONNECT", host, [("host", host), *_proxy_key(self._proxy)])
            reply = _Connection(opened).exchange(tunnel, b"", deadline, _PIECE)
            if not 200 <= reply.status < 300:
                raise Broken(f"the proxy answered {reply.status}")
        opened.settimeout(_left(deadline))
        name = self._url.raw_host.decode()
        secure = self._watched(self._tls.wrap_socket(opened, server_hostname=name, do_handshake_on_connect=False))
        self._forget(opened)  # the other has its connection now
        try:
            secure.do_handshake()
        except BaseException:
            self._forget(secure)
            raise
        return secure

    def _watched(self, opened: S) -> S:
        with self._lock:
            self._busy.add(opened)
        return opened

    def _target(self, path: str) -> str:
        through = self._proxy is not None and self._url.scheme == "http"
        return f"http://{self._url.netloc.decode()}{path}" if through else path

    def _headers(self, headers: Headers, body: bytes) -> Headers:
        through = [] if self._proxy is None or self._url.scheme == "https" else _proxy_key(self._proxy)
        return [
            ("host", self._url.netloc.decode()),
            ("connection", "close"),
            *headers,
            ("content-length", str(len(body))),
            *through,
        ]


def path_of(url: str) -> str:
    """What follows the host in an address, as it is sent."""
    return httpx.URL(url).raw_path.decode()


def _sent(method: str, target: str, headers: Headers) -> h11.Request:
    try:
        return h11.Request(method=method, target=target, headers=list(headers))
    except h11.LocalProtocolError as error:
        raise UsageError(f"expected headers and an address that HTTP can carry: {error}") from error


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    return left


def _proxy(text: str) -> httpx.URL:
    proxy = httpx.URL(text if "://" in text else f"http://{text}")
    if proxy.scheme != "http" or not proxy.host:
        raise UsageError("expected a proxy of this machine's environment with an http:// address, got another kind")
    return proxy


def _proxy_key(proxy: httpx.URL) -> Headers:
    if not proxy.userinfo:
        return []
    return [("proxy-authorization", "Basic " + b64encode(unquote(proxy.userinfo.decode()).encode()).decode())]
