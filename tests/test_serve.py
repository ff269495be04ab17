"""Served models, asked by leakmeter itself and by hand."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
import uvicorn
from torch import nn
from typer.testing import CliRunner

from leakmeter.cli import app
from leakmeter.errors import UsageError, VictimError
from leakmeter.oracle.oracle import Oracle
from leakmeter.serve import serve
from leakmeter.serve.app import make_app
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim

NET = nn.Sequential(nn.Flatten(), nn.Linear(8, 3)).eval()
SHAPE = (2, 2, 2)
JSON = {"content-type": "application/json"}


def local(outputs: str = "logits") -> Victim:
    if outputs == "labels":
        return load_victim(
            lambda x: NET(torch.from_numpy(x)).argmax(1).numpy(),
            input_shape=SHAPE,
            low=0.0,
            high=None,
            classes=3,
            outputs="labels",
        )
    return load_victim(NET, input_shape=SHAPE, low=[[[0.0, -1.0]]], high=1.0, name="shop/net:v1")


@contextlib.contextmanager
def serving(victim: Victim, **guard: Any) -> Iterator[str]:
    """A real server in a thread; the address of its model."""
    server = uvicorn.Server(uvicorn.Config(make_app(victim, **guard), port=0, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        name = re.sub(r"[^\w.]+", "-", victim.spec.name).strip("-")
        yield f"http://127.0.0.1:{port}/v2/models/{name}"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.mark.parametrize("outputs", ["logits", "labels"])
def test_a_served_victim_is_loaded_by_its_address_alone_and_answers_the_same(outputs: str) -> None:
    victim = local(outputs)
    with serving(victim) as address:
        remote = load_victim(address, remote={"rows": 7})
        for fact in ("input_shape", "classes", "outputs", "dtype"):
            assert getattr(remote.spec, fact) == getattr(victim.spec, fact)
        assert str(remote.spec.low) == str(victim.spec.low)
        assert str(remote.spec.high) == str(victim.spec.high)
        x = torch.rand(40, *SHAPE, generator=torch.Generator().manual_seed(0))
        answers = [Oracle(each, outputs).query(x).columns[outputs] for each in (victim, remote)]
        assert answers[0].dtype == answers[1].dtype
        torch.testing.assert_close(*answers)
        remote.close()  # type: ignore[attr-defined]


def test_the_protocol_by_hand() -> None:
    with serving(local()) as address, httpx.Client(trust_env=False) as http:
        root = address.partition("/v2")[0]
        assert [http.get(f"{root}/v2/health/{state}").status_code for state in ("live", "ready")] == [200, 200]
        assert http.get(f"{address}/ready").status_code == 200
        assert http.get(f"{root}/v2").json()["name"] == "leakmeter"
        nested = {"name": "input", "shape": [1, *SHAPE], "datatype": "FP32", "data": [[[[0, 1], [0, 1]]] * 2]}
        answer = http.post(f"{address}/infer", json={"id": "7", "inputs": [nested]}).json()
        expected = NET(torch.tensor(nested["data"], dtype=torch.float32))
        assert (answer["id"], answer["outputs"][0]["name"], answer["outputs"][0]["shape"]) == ("7", "logits", [1, 3])
        torch.testing.assert_close(torch.tensor(answer["outputs"][0]["data"]), expected[0].detach())
        unknown = http.get(f"{root}/v2/models/other")
        assert (unknown.status_code, unknown.json()) == (404, {"error": "Not Found"})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{", "expected a request in JSON"),
        ("[]", "expected a JSON object"),
        ('{"inputs": [{"shape": [Infinity, 4], "data": [1]}]}', "as many numbers in data"),
        ('{"inputs": [{"shape": [1e30, 4], "data": [1]}]}', "as many numbers in data"),
        ('{"inputs": [{"shape": [0, 2, 2, 2], "data": []}]}', "expected"),
        ("{}", "expected one tensor in inputs"),
        ('{"inputs": [{"name": "x", "shape": [1, 8], "data": [1]}]}', "as many numbers in data"),
        ('{"inputs": [{"name": "x", "shape": [1, 2], "data": [0, 1]}]}', "expected queries of shape"),
        ('{"inputs": [{"shape": [1, 2, 2, 2], "data": [0, 0, 0, 0, 0, 0, 0, NaN]}]}', "expected finite numbers"),
        ('{"inputs": [{"shape": [1, 2, 2, 2], "data": [0, 0, 0, 0, 0, 0, 0, 2]}]}', "expected inputs of at most 1"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_why(body: str, sentence: str, address: str) -> None:
    answer = httpx.post(f"{address}/infer", content=body, headers=JSON, trust_env=False)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(local()) as address:
        yield address


def test_a_key_is_wanted_and_the_rate_is_kept(monkeypatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "sesame-4711")
    with serving(local(), key="sesame-4711", rate=4.0) as address:
        with pytest.raises(UsageError, match="denies access"):
            load_victim(address)
        remote = load_victim(address, remote={"key_env": "SHOP_KEY", "rows": 1})
        oracle = Oracle(remote, "logits", budget=6)
        start = time.monotonic()
        oracle.query(torch.rand(6, *SHAPE))
        assert time.monotonic() - start >= 0.5, "4 at once, one of them the metadata, then 4 a second"
        assert oracle.ledger.entry("attack").unconfirmed == 0
        with httpx.Client(headers={"authorization": "Bearer sesame-4711"}, trust_env=False) as http:
            refused = next(each for each in (http.get(address) for _ in range(200)) if each.status_code == 429)
        assert int(refused.headers["retry-after"]) == 1
        remote.close()  # type: ignore[attr-defined]


def test_a_model_that_fails_is_the_servers_fault() -> None:
    victim = local()
    victim.compute = lambda x, _: NET(x) * float("nan")  # type: ignore[method-assign]
    with serving(victim) as address:
        remote = load_victim(address, remote={"retries": 0})
        with pytest.raises(VictimError, match=r"answered 500.*NaN or infinity"):
            Oracle(remote, "logits").query(torch.rand(2, *SHAPE))
        remote.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"host": "0.0.0.0"}, "expected a loopback address"),
        ({"host": "example.com"}, "expected a loopback address"),
        ({"rate": 0.0}, "expected a rate above 0"),
        ({"key_env": "LEAKMETER_NO_SUCH_KEY"}, "holds no key"),
    ],
)
def test_what_is_not_served(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        serve(local(), **more)


AUDIT = ["--budget", "100", "--stops", "100", "-S", "student=linear", "-S", "recipe.steps=20", "-S", "pool=procedural"]
AUDIT += ["--authorized-by", "A. Owner", "--rps", "500", "--concurrency", "2"]
SHOP = """
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


def test_an_audit_of_a_served_model_by_command_line(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    facts = ["--input-shape", "1,8,8", "--low", "0", "--high", "1"]
    command = [sys.executable, "-m", "leakmeter", "serve", "shop:net", "--port", "0", *facts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            audit = CliRunner().invoke(app, ["extract", "surrogate", "--victim", address_told(server), *AUDIT])
        finally:
            server.send_signal(2)
    assert audit.exit_code == 0, audit.output
    assert server.returncode == 0, "Ctrl-C is how a server ends"
    (folder,) = (tmp_path / "runs").iterdir()
    result = json.loads((folder / "results.json").read_text())
    assert result["victim"]["authorized_by"] == "A. Owner"
    assert result["plan"]["victim"]["remote"]["rps"] == 500
    assert result["cells"][0]["spending"]["queries"] == 100
    assert "A. Owner" in (folder / "report.html").read_text()


def address_told(server: subprocess.Popen[str]) -> str:
    """Where `leakmeter serve --port 0` says that it serves."""
    assert server.stdout is not None
    assert server.stderr is not None
    said = server.stdout.readline()
    for line in server.stderr:
        if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
            return said.split()[-1].replace(":0/", f":{found[1]}/")
    raise AssertionError("the server ended")


def test_the_servers_key_is_not_taken_for_a_remote_victims(tmp_path, monkeypatch) -> None:
    (tmp_path / "shop.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(3, 2)\n")
    asked = {}
    monkeypatch.setattr("leakmeter.serve.serve", lambda model, **rest: asked.update(rest))
    facts = ["--input-shape", "3", "--low", "0", "--high", "1", "--outputs", "logits"]
    result = CliRunner().invoke(app, ["serve", f"{tmp_path}/shop.py:net", "--key-env", "SHOP_KEY", *facts])
    assert result.exit_code == 0, result.output
    assert asked["key_env"] == "SHOP_KEY"
