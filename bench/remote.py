"""Throughput over loopback HTTP: a remote victim behind an oracle against a bare client sending the same batches.

    python bench/remote.py [--blocks 12]

One server (`leakmeter serve`, a process of its own) answers all arms, which take turns in short blocks, so that
whatever else the machine does falls on all. Arms: `oracle` (ledger and log on disk, checks, retries), `bare` (as many
threads with `http.client`, which encode and decode JSON and do nothing else) and `encoded` (the same with bodies made
beforehand, so that only sending and decoding are timed). Writes results/bench/remote.json.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from _keep import keep
from pydantic_core import from_json, to_json
from torch import Tensor

from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.remote.protocol import tensor

TARGET = 0.8
ROWS, THREADS = 64, 4  # what a remote victim does unless told otherwise
SHOP = """
from torch import nn
from leakmeter.models import make_model

def images():
    net = make_model("lenet", (1, 28, 28), 10, seed=0)
    net.input_shape, net.low, net.high = (1, 28, 28), 0.0, 1.0
    return net

def features():
    net = make_model("mlp", (20,), 3, seed=0)
    net.input_shape, net.low, net.high = (20,), 0.0, 1.0
    return net
"""


class Bare:
    """Threads that each hold a connection and send what they are given."""

    def __init__(self, address: str) -> None:
        self._host, self._path = address.removeprefix("http://").split("/", 1)
        self._here = threading.local()
        self._pool = ThreadPoolExecutor(THREADS)

    def encoding(self, x: Tensor) -> None:
        """Sends rows."""
        list(self._pool.map(lambda rows: self._send(body_of(rows)), torch.split(x, ROWS)))

    def encoded(self, bodies: list[bytes]) -> None:
        """Sends requests."""
        list(self._pool.map(self._send, bodies))

    def _send(self, body: bytes) -> list[float]:
        if not hasattr(self._here, "connection"):
            self._here.connection = http.client.HTTPConnection(self._host)
        self._here.connection.request("POST", f"/{self._path}/infer", body, {"content-type": "application/json"})
        answer: list[float] = from_json(self._here.connection.getresponse().read())["outputs"][0]["data"]
        return answer


def body_of(rows: Tensor) -> bytes:
    return to_json({"inputs": [tensor("input", rows.numpy())]})


def compare(address: str, rows: int, blocks: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        victim = load_victim(address)
        ledger, log = Ledger(Path(folder) / "ledger.sqlite"), AnswerLog(Path(folder) / "answers")
        oracle, bare = Oracle(victim, "logits", ledger=ledger, log=log), Bare(address)
        x = torch.rand(rows, *victim.spec.input_shape, generator=torch.Generator().manual_seed(0))
        bodies = [body_of(piece) for piece in torch.split(x, ROWS)]
        arms: list[Callable[[], object]] = [
            lambda: oracle.query(x),
            lambda: bare.encoding(x),
            lambda: bare.encoded(bodies),
        ]
        seconds: list[list[float]] = [[], [], []]
        for block in range(blocks + 1):
            for turn in range(3):
                arm = (block + turn) % 3
                start = time.perf_counter()
                arms[arm]()
                if block:  # the first warms up
                    seconds[arm].append(time.perf_counter() - start)
    return {
        "rows_per_block": rows,
        "oracle_rows_per_second": rows / statistics.median(seconds[0]),
        "bare_rows_per_second": rows / statistics.median(seconds[1]),
        "encoded_rows_per_second": rows / statistics.median(seconds[2]),
        "oracle_over_bare": ratio(seconds[1], seconds[0]),
        "oracle_over_encoded": ratio(seconds[2], seconds[0]),
    }


def ratio(slow: list[float], fast: list[float]) -> float:
    """Each block against its neighbours."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


@contextmanager
def serving(factory: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shop.py").write_text(SHOP)
        command = [sys.executable, "-m", "leakmeter", "serve", f"shop:{factory}", "--port", "0"]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=folder, **pipes) as server:  # type: ignore[call-overload]
            try:
                port = next(found[1] for line in server.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
                yield f"http://127.0.0.1:{port}/v2/models/shop-{factory}"
            finally:
                server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=12)
    blocks = parser.parse_args().blocks
    record: dict[str, object] = {
        "command": f"python bench/remote.py --blocks {blocks}",
        "rows_per_request": ROWS,
        "requests_at_once": THREADS,
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0],
        "target_oracle_over_bare": TARGET,
    }
    for factory, rows in ("images", 2048), ("features", 8192):
        with serving(factory) as address:
            record[factory] = compare(address, rows, blocks)
    keep("remote", record)


if __name__ == "__main__":
    main()
