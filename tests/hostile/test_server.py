"""Whatever a server does: every request ends in time and in memory, every row is counted, no answer goes to another."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from hostile_server import BEHAVIOURS, HARMLESS, SLOW, HostileServer, as_json, whole

from leakmeter.errors import LeakmeterError, VictimError
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim

TIMEOUT = 0.4
REMOTE = {"timeout": TIMEOUT, "retries": 1, "rows": 8, "concurrency": 2}
MOST_MEMORY = 200_000  # kilobytes more than before


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


def expected(x: torch.Tensor) -> torch.Tensor:
    return (x[:, :3] + 1) / (x[:, :3].sum(1, keepdim=True) + 3)


@pytest.mark.parametrize("manner", BEHAVIOURS)
def test_a_server_that_always_misbehaves_ends_in_a_sentence_in_time_and_in_memory(
    server: HostileServer, manner: str
) -> None:
    patient = REMOTE | {"retries": 8 if manner in HARMLESS else 1}  # a busy machine may be late, too
    oracle = Oracle(load_victim(f"{server.address}/{manner}", remote=patient), "probs", budget=1000)
    x, start = torch.rand(16, 4, dtype=torch.float64), time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if manner in HARMLESS:
        assert torch.equal(oracle.query(x).probs, expected(x))
    else:
        with pytest.raises(
            VictimError,
            match=r"gave no usable answer in 2 tries; the last time|is not as described: its answer held words",
        ) as caught:
            oracle.query(x)
        assert "\x1b" not in str(caught.value)
    assert time.monotonic() - start < 60 * TIMEOUT  # two tries of two requests at once, on a busy machine
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
    assert server.seen[manner] <= oracle.ledger.spent()


@pytest.mark.parametrize("manner", ["shifted", "trailing", "reset", "gzip", "half", "interim"])
def test_answers_between_misbehaviour_are_those_to_the_questions(server: HostileServer, manner: str) -> None:
    victim = load_victim(f"{server.address}/{manner}-30", remote=REMOTE | {"retries": 8})
    oracle = Oracle(victim, "probs", budget=2000)
    for seed in range(6):
        x = torch.rand(48, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(oracle.query(x).probs, expected(x))
    assert server.seen[f"{manner}-30"] <= oracle.ledger.spent()


def described(shape: object = (-1, 4), columns: object = (-1, 3), **change: object) -> bytes:
    inputs = {"name": "x", "datatype": "FP32", "shape": shape, "parameters": {"low": 0, "high": 1}} | change
    return whole(as_json({"inputs": [inputs], "outputs": [{"name": "probs", "shape": columns}]}))


def test_an_answer_that_came_before_the_question_is_not_taken_for_its_own(server: HostileServer) -> None:
    victim = load_victim(f"{server.address}/shifted-later-30", remote=REMOTE | {"concurrency": 1})
    oracle = Oracle(victim, "probs", budget=2000)
    for seed in range(12):
        x = torch.rand(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(oracle.query(x).probs, expected(x))
        time.sleep(3 * SLOW)


BAD_METADATA = {
    "slow": None,
    "bomb": whole(b"[" * (1 << 22)),
    "list": whole(b"[1, 2]"),
    "infinite": described((-1, float("inf"))),
    "wide": described((-1, 10**12)),
    "classes": described(columns=(-1, 10**12)),
    "bounds": described(parameters={"low": "a", "high": {}}),
    "types": described("abc", name=["x"], datatype={"a": 1}),
    "text": described(columns=[-1, "9"]),
    "boxes": described(parameters=[1]),
}


@pytest.mark.parametrize("kind", BAD_METADATA)
def test_metadata_that_is_wrong_endless_or_too_large_is_a_sentence(kind: str) -> None:
    def reply(key: str) -> bytes:
        raw = BAD_METADATA[kind]
        if raw is None:
            time.sleep(3 * TIMEOUT)
        return raw or b""

    with HostileServer(reply) as server, pytest.raises(LeakmeterError):
        load_victim(f"{server.address}/any", remote=REMOTE)


@pytest.fixture
def python_handles_interrupts() -> Iterator[None]:
    """Also in a process that was started in the background, where interrupts are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _to_the_process() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _to_another_thread() -> None:
    """As a kernel may deliver what was sent to the process: nothing that the main thread waits for wakes up."""
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.mark.parametrize("interrupt", [_to_the_process, _to_another_thread])
def test_an_interrupt_ends_a_question_that_a_server_keeps_waiting(
    server: HostileServer, interrupt: Callable[[], None], python_handles_interrupts: None
) -> None:
    victim = load_victim(f"{server.address}/interim", remote=REMOTE | {"timeout": 60})
    timer = threading.Timer(0.5, interrupt)
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        Oracle(victim, "probs", budget=100).query(torch.rand(16, 4, dtype=torch.float64))
    assert time.monotonic() - start < 20  # the request itself would wait for a minute
