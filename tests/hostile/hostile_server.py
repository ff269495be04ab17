"""A server of the Open Inference Protocol over bare sockets, so that it can misbehave below the level of HTTP.

`/v2/models/trickle` misbehaves on every request for an answer, `/v2/models/trickle-20` on every fifth; in between it
answers properly. Rows count as seen when the model computed them, whether or not anybody hears of it.
"""

from __future__ import annotations

import gzip
import json
import socket
import socketserver
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CLASSES, WIDTH = 3, 4
SLOW = 0.05  # seconds between the pieces of what dribbles
ENDLESS = 400  # pieces, far beyond any deadline of a test


def probabilities(row: list[float]) -> list[float]:
    total = sum(row[:CLASSES]) + CLASSES
    return [(value + 1) / total for value in row[:CLASSES]]


def head(length: int | None, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", *more]
    lines += [] if length is None else [f"content-length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    return head(len(body), status, *more) + body


def answer(data: list[float], rows: int) -> dict[str, Any]:
    return {"outputs": [{"name": "probs", "datatype": "FP64", "shape": [rows, CLASSES], "data": data}]}


def as_json(document: object) -> bytes:
    return json.dumps(document).encode()


class Turn:
    """One request that is to be answered badly."""

    def __init__(self, channel: socket.socket, rows: int, data: list[float], key: str) -> None:
        self.channel, self.rows, self.data, self.key = channel, rows, data, key
        self.body = as_json(answer(data, rows))

    def send(self, content: bytes) -> None:
        self.channel.sendall(content)

    def dribble(self, content: bytes, piece: int = 1) -> None:
        for i in range(0, len(content), piece):
            self.send(content[i : i + piece])
            time.sleep(SLOW)

    def changed(self, **change: Any) -> bytes:
        document = answer(self.data, self.rows)
        document["outputs"][0].update(change)
        return whole(as_json(document))

    def reset(self) -> None:
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.channel.close()


def _chunked(parts: list[bytes], extension: bytes = b"") -> bytes:
    return b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)


def _bomb(layers: int) -> bytes:
    packed = b" " * (1 << 24)
    for _ in range(layers):
        packed = gzip.compress(packed)
    return packed


def _empty_blocks(turn: Turn) -> None:
    turn.send(head(None, "200 OK", "content-encoding: deflate", "transfer-encoding: chunked"))
    turn.dribble(_chunked([zlib.compress(b"")[:2]]) + _chunked([b"\x00\x00\x00\xff\xff"] * ENDLESS), 11)


def _shifted(turn: Turn) -> None:
    other = as_json(answer([1 / CLASSES] * len(turn.data), turn.rows))
    turn.send(whole(turn.body) + whole(other))


def _shifted_later(turn: Turn) -> None:
    turn.send(whole(turn.body))
    time.sleep(SLOW)
    with suppress(OSError):
        turn.send(whole(as_json(answer([1 / CLASSES] * len(turn.data), turn.rows))))


TRANSFER = "transfer-encoding: chunked"
BEHAVIOURS: dict[str, Callable[[Turn], object]] = {
    # time
    "mute": lambda t: time.sleep(SLOW * 60),
    "slow-status": lambda t: t.dribble(whole(t.body)),
    "slow-headers": lambda t: (t.send(b"HTTP/1.1 200 OK\r\n"), t.dribble(b"x-a: b\r\n" * ENDLESS, 8)),
    "interim": lambda t: t.dribble(b"HTTP/1.1 102 Processing\r\n\r\n" * ENDLESS, 27),
    "interim-fast": lambda t: t.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 400_000),
    "slow-body": lambda t: (t.send(head(len(t.body))), t.dribble(t.body)),
    "slow-chunks": lambda t: (t.send(head(None, "200 OK", TRANSFER)), t.dribble(_chunked([b" "] * ENDLESS), 6)),
    "extensions": lambda t: (t.send(head(None, "200 OK", TRANSFER) + b"5;"), t.dribble(b"x=y;" * ENDLESS, 4)),
    "trailers": lambda t: (t.send(head(None, "200 OK", TRANSFER) + _chunked([t.body, b""])[:-2]),
        t.dribble(b"x-t: 1\r\n" * ENDLESS, 8)),
    "empty-blocks": _empty_blocks,
    # size
    "long-line": lambda t: t.send(b"HTTP/1.1 200 " + b"a" * (1 << 22) + b"\r\n\r\n"),
    "many-headers": lambda t: t.send(b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 200_000 + b"\r\n"),
    "long-body": lambda t: t.send(whole(b"[" + b"0," * (1 << 22) + b"0]")),
    "announced": lambda t: (t.send(head(1 << 40)), t.dribble(b"0," * ENDLESS, 2)),
    "no-end": lambda t: t.send(head(None, "200 OK", "connection: close") + b" " * (1 << 23)),
    "gzip": lambda t: t.send(whole(gzip.compress(t.body), "200 OK", "content-encoding: gzip")),
    "triple-gzip": lambda t: t.send(whole(_bomb(3), "200 OK", "content-encoding: gzip, gzip, gzip")),
    "two-encodings": lambda t: t.send(
        whole(_bomb(1), "200 OK", "content-encoding: gzip", "content-encoding: identity")
    ),
    "transfer-gzip": lambda t: t.send(head(None, "200 OK", "transfer-encoding: gzip, chunked") + _chunked([_bomb(1)])),
    # connections
    "reset": lambda t: t.reset(),
    "closed": lambda t: t.channel.close(),
    "half": lambda t: (t.send(whole(t.body)[: len(t.body) // 2]), t.channel.close()),
    "short": lambda t: (t.send(head(len(t.body) + 9) + t.body), t.channel.close()),
    "shifted": _shifted,
    "shifted-later": _shifted_later,
    "trailing": lambda t: t.send(whole(t.body) + b"\r\n\r\n"),
    "two-lengths": lambda t: t.send(head(len(t.body), "200 OK", "content-length: 3") + t.body),
    "length-and-chunks": lambda t: t.send(head(3, "200 OK", TRANSFER) + _chunked([t.body, b""])),
    "upgrade": lambda t: t.send(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n" + t.body),
    "not-http": lambda t: t.send(b"SSH-2.0-OpenSSH_9.2\r\n" + t.body),
    "nothing": lambda t: t.send(b"\x00" * 65),
    # statuses
    "500": lambda t: t.send(whole(b"oops \x1b[31m", "500 No")),
    "503": lambda t: t.send(whole(b"", "503 No")),
    "204": lambda t: t.send(b"HTTP/1.1 204 Empty\r\n\r\n"),
    # content
    "empty": lambda t: t.send(whole(b"")),
    "deep": lambda t: t.send(whole(b"[" * 100_000)),
    "not-json": lambda t: t.send(whole(b"<html>")),
    "not-utf8": lambda t: t.send(whole(b'{"outputs": "\xff\xfe"}')),
    "list": lambda t: t.send(whole(b"[]")),
    "infinite-shape": lambda t: t.send(t.changed(shape=[float("inf"), CLASSES])),
    "huge-shape": lambda t: t.send(t.changed(shape=[10**30, 10**30, 0], data=[])),
    "long-shape": lambda t: t.send(t.changed(shape=[1] * 5000)),
    "nan": lambda t: t.send(t.changed(data=[float("nan")] * len(t.data))),
    "big-numbers": lambda t: t.send(whole(as_json(answer([], t.rows)).replace(b'[]', b"[" + b"9" * 5000 + b"]"))),
    "strings": lambda t: t.send(t.changed(data=["about " + str(each) for each in t.data])),
    "objects": lambda t: t.send(t.changed(data=[{}] * len(t.data))),
    "fewer": lambda t: t.send(t.changed(shape=[t.rows - 1, CLASSES], data=t.data[CLASSES:])),
}  # fmt: skip
HARMLESS = {"shifted", "shifted-later", "trailing"}  # a whole answer comes first


class HostileServer(socketserver.ThreadingTCPServer):
    """Serves until the `with` block ends; `seen` counts rows computed by model."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, metadata: Callable[[str], bytes] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: Counter[str] = Counter()
        self.turns: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.metadata = metadata

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v2/models"

    def __enter__(self) -> HostileServer:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what is tested."""


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: HostileServer

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            while self._one():
                pass

    def _one(self) -> bool:
        line = self.rfile.readline()
        if not line:
            return False
        headers: dict[str, str] = {}
        while (field := self.rfile.readline().strip()) != b"":
            name, _, value = field.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        method, path, _ = line.decode().split()
        name = path.split("/")[3]
        if method == "GET":
            raw = self.server.metadata and self.server.metadata(headers.get("authorization", ""))
            self.connection.sendall(raw or whole(as_json(self._metadata(name))))
        else:
            self._answer(name, json.loads(body)["inputs"][0], headers.get("authorization", ""))
        return True

    def _answer(self, name: str, tensor: dict[str, Any], key: str) -> None:
        manner, percent = name, "100"
        if name.rpartition("-")[2].isdecimal() and name.rpartition("-")[0] in BEHAVIOURS:
            manner, _, percent = name.rpartition("-")
        (rows, width), numbers = tensor["shape"], tensor["data"]
        data = [p for i in range(rows) for p in probabilities(numbers[i * width : (i + 1) * width])]
        with self.server.lock:
            self.server.seen[name] += rows
            self.server.turns[name] += 1
            wrong = self.server.turns[name] * int(percent) // 100 > (self.server.turns[name] - 1) * int(percent) // 100
        turn = Turn(self.connection, rows, data, key)
        if wrong and manner in BEHAVIOURS:
            BEHAVIOURS[manner](turn)
        else:
            turn.send(whole(turn.body))

    def _metadata(self, name: str) -> dict[str, Any]:
        box = {"low": 0.0, "high": 1.0}
        return {
            "name": name,
            "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, WIDTH], "parameters": box}],
            "outputs": [{"name": "probs", "datatype": "FP64", "shape": [-1, CLASSES]}],
        }
