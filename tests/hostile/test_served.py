"""A served model and the pages, guessers and half-open connections that ask it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import torch
import uvicorn

from leakmeter.serve import LIMITS, protocol
from leakmeter.serve.app import make_app
from leakmeter.victims.load import load_victim

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
JSON = {"content-type": "application/json"}
ASK = '{"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 1, 0, 1]}]}'


@pytest.fixture
def port(request, monkeypatch) -> Iterator[int]:
    monkeypatch.setattr(protocol, "SECONDS_FOR_A_REQUEST", 0.5)
    victim = load_victim(torch.nn.Linear(4, 3), low=0.0, high=1.0, name="net")
    app = make_app(victim, **getattr(request, "param", {}))
    config = uvicorn.Config(app, port=0, log_level="critical", http=protocol.ImpatientProtocol, **LIMITS)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def post(port: int, content: str | bytes = ASK, **headers: str) -> httpx.Response:
    address = f"http://127.0.0.1:{port}/v2/models/net/infer"
    return httpx.post(address, content=content, headers=JSON | headers, trust_env=False)


def test_other_hosts_and_other_types_are_refused(port: int) -> None:
    assert post(port).status_code == 200
    for host in ("127.0.0.1", "localhost", f"localhost:{port}", "[::1]", "LOCALHOST"):
        assert post(port, host=host).status_code == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "127.0.0.1@evil.example"):
        assert post(port, host=host).status_code in (400, 421)
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded", ""):
        assert post(port, **{"content-type": kind}).status_code == 415
    assert post(port, **{"content-type": "application/json; charset=utf-8"}).status_code == 200


def test_a_body_is_bounded_by_what_a_request_can_need(port: int) -> None:
    refused = post(port, b"[" + b"0," * (1 << 20))
    assert refused.status_code == 413
    assert "send fewer rows at once" in refused.json()["error"]


@pytest.mark.parametrize("port", [{"key": "sesame-4711", "rate": 2.0}], indirect=True)
def test_wrong_keys_meet_the_rate_limit_too(port: int) -> None:
    answers = [post(port, authorization=f"Bearer guess-{i}").status_code for i in range(20)]
    assert 401 in answers
    assert answers.count(429) >= 10


@pytest.mark.parametrize("sent", [b"", b"POST /v2/models/net/infer HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: "])
def test_half_open_connections_are_closed(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(sent)
        half.settimeout(30)
        assert half.recv(1) == b""
    assert post(port).status_code == 200


@pytest.mark.parametrize("port", [{"key": "sesame-4711"}], indirect=True)
def test_a_kept_connection_that_asks_is_left_open(port: int) -> None:
    with httpx.Client(headers=JSON | {"authorization": "Bearer sesame-4711"}, trust_env=False) as http:
        for _ in range(4):
            assert http.post(f"http://127.0.0.1:{port}/v2/models/net/infer", content=ASK).status_code == 200
            time.sleep(0.2)
