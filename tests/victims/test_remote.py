"""Remote victims, asked over the loopback of a real server that misbehaves."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from leakmeter import audit
from leakmeter.errors import BudgetExhausted, UsageError, VictimError
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.ledger import ATTACK, EVALUATION, recorded
from leakmeter.oracle.oracle import Oracle
from leakmeter.runs.run import LEDGER
from leakmeter.victims.bounds import UNSAID
from leakmeter.victims.facts import Facts
from leakmeter.victims.load import load_victim
from leakmeter.victims.remote.client import BadAnswer, Misdescribed
from leakmeter.victims.remote.pace import OwnPace, Share, backoff, retry_after
from leakmeter.victims.remote.protocol import OpenInference
from leakmeter.victims.remote.template import Template, first_protocol
from leakmeter.victims.remote.victim import RemoteVictim
from leakmeter.victims.victim import Question

SMALL = {"rows": 8}
HASTY = {"timeout": 0.5}
KEY = "sesame-4711"


class Server:
    """The misbehaving server, from outside."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def model(self, name: str) -> str:
        return f"{self.address}/v2/models/{name}"

    def seen(self, name: str) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.address}/seen/{name}", timeout=10) as answer:
            counts: dict[str, int] = json.loads(answer.read())
        return counts


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    script = Path(__file__).with_name("misbehaving.py")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(int(process.stdout.readline()))
        finally:
            process.kill()


@pytest.fixture
def ask(server: Server) -> Iterator[Callable[..., RemoteVictim]]:
    victims: list[RemoteVictim] = []

    def load(name: str, **more: Any) -> RemoteVictim:
        victim = load_victim(server.model(name), remote={**SMALL, **more})
        assert isinstance(victim, RemoteVictim)
        victims.append(victim)
        return victim

    yield load
    for victim in victims:
        victim.close()


def points(n: int = 200) -> Tensor:
    return torch.rand(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def right(x: Tensor) -> Tensor:
    scores = x[:, :3] + 1
    return scores / scores.sum(1, keepdim=True)


def agree(shown: Answer, x: Tensor) -> None:
    torch.testing.assert_close(shown.probs, right(x))


def test_a_well_behaved_server_is_asked_once_a_row_and_answers_keep_their_order(server, ask) -> None:
    victim = ask("well", concurrency=3)
    assert (victim.remote, victim.spec.input_shape, victim.spec.classes) == (True, (4,), 3)
    assert (victim.spec.outputs, victim.spec.dtype) == ("probs", torch.float64)
    assert server.seen("well")["rows"] == 0, "nothing is asked before there is a ledger to count it"
    oracle = Oracle(victim, "probs", budget=203)
    x = points(203)
    agree(oracle.query(x), x)
    assert oracle.ledger.spent() == server.seen("well")["rows"] == 203
    assert 2 <= server.seen("well")["at_once"] <= 3


@pytest.mark.parametrize(
    "name", ["drop-20", "500-20", "503-20", "truncated-20", "cut-20", "nan-20", "shape-20", "all-40"]
)
def test_a_server_that_fails_now_and_then_is_heard_in_the_end_and_every_time_is_counted(server, ask, name) -> None:
    oracle = Oracle(ask(name, retries=20), "probs", budget=2000)
    x = points()
    agree(oracle.query(x), x)
    entry, seen = oracle.ledger.entry(ATTACK), server.seen(name)["rows"]
    assert seen > 200, "the test must have met a failure"
    assert entry.queries == seen
    assert entry.unconfirmed == seen - 200


def test_a_server_that_takes_one_row_at_a_time_is_told_of_with_the_flag_and_works_with_it(ask) -> None:
    x, oracle = points(3), Oracle(ask("single", rows=2), "probs")
    agree(oracle.query(x[:1]), x[:1])
    with pytest.raises(VictimError, match=r"rejects requests with 400.*sent 2 rows: .*--rows 1"):
        oracle.query(x)
    agree(Oracle(ask("single", rows=1), "probs").query(x), x)


def test_numbers_in_quotation_marks_are_read(ask) -> None:
    agree(Oracle(ask("quoted"), "probs").query(points()), points())


def test_a_stalling_server_is_asked_again_and_counted_again(server, ask) -> None:
    oracle = Oracle(ask("stall-30", retries=20, **HASTY), "probs", budget=2000)
    x = points(40)
    agree(oracle.query(x), x)
    seen = server.seen("stall-30")["rows"]
    assert 40 < seen <= oracle.ledger.spent()


def test_refusals_are_waited_out_and_cost_nothing(server, ask) -> None:
    oracle = Oracle(ask("refuse-40"), "probs", budget=80)
    x = points(80)
    agree(oracle.query(x), x)
    assert server.seen("refuse-40")["requests"] > 10
    assert oracle.ledger.spent() == server.seen("refuse-40")["rows"] == 80
    assert oracle.ledger.entry(ATTACK).unconfirmed == 0


def test_patience_with_refusals_ends_also_when_they_ask_for_no_time(server, ask) -> None:
    oracle = Oracle(ask("refuse", patience=0.3, concurrency=1), "probs", budget=8)
    with pytest.raises(VictimError, match="refuses requests"):
        oracle.query(points(8))
    assert server.seen("refuse")["rows"] == 0


@pytest.mark.parametrize("name", ["drop-60", "all-70"])
def test_no_repeat_passes_the_budget(server, ask, name) -> None:
    oracle = Oracle(ask(name, retries=50), "probs", budget=60)
    with pytest.raises(BudgetExhausted):
        oracle.query(points(48))
    assert 0 < server.seen(name)["rows"] <= oracle.ledger.spent() <= 60


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("drop", "in 2 tries; the last time the connection broke"),
        ("500", 'the last time it answered 500, saying {"error": "out of memory"}'),
        ("truncated", "the last time the connection broke"),
        ("cut", "the last time its answer was not whole JSON"),
        ("nan", "the last time its answer held NaN or infinity"),
        ("null", "the last time its answer held something that is not a number"),
        ("text", "its answer held words where numbers were expected"),
        ("short", r"its answer had the shape \(9, 3\) instead of \(8, 3\)"),
        ("narrow", r"its answer had the shape \(8, 1\) instead of \(8, 3\)"),
        ("shape", r"its answer had 24 numbers for the shape \(7, 7\)"),
        ("logits", "its answer held numbers that are no probabilities"),
        ("stall", "the last time no whole answer came within 0.5 s"),
        ("dribble", "the last time no whole answer came within 0.5 s"),
        ("away", "asks to wait 3600 s more"),
        ("moved", r"redirects elsewhere \(307\)"),
        ("reject", "rejects requests with 400, saying"),
    ],
)
def test_a_server_that_never_answers_ends_in_one_sentence(server, ask, name, sentence) -> None:
    hurry = HASTY if name in ("stall", "dribble") else {}
    oracle = Oracle(ask(name, retries=1, concurrency=2, **hurry), "probs", budget=100)
    with pytest.raises(VictimError, match=sentence) as caught:
        oracle.query(points(24))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    assert server.seen(name)["rows"] <= oracle.ledger.spent() <= 100


def small_audit(victim: str, **remote: Any) -> dict[str, Any]:
    surrogate = {"name": "surrogate", "student": "linear", "recipe": {"steps": 20}}
    plan = {"source": victim, "remote": SMALL | remote}
    return {"victim": plan, "attacks": [surrogate], "views": ["probs"], "seeds": [0, 1], "budget": 120, "stops": [60]}


def test_an_audit_of_a_misbehaving_server_counts_what_it_saw(server, tmp_path) -> None:
    result = audit(small_audit(server.model("all-21"), retries=20), out=tmp_path)
    assert [cell.status for cell in result.cells] == ["done", "done"]
    spent = [cell.spending.queries for cell in result.cells]
    assert max(spent) <= 120
    scoring = recorded(result.folder / LEDGER)[EVALUATION]  # inputs drawn for want of test data, then checks of cells
    scoring += sum(cell.spending.evaluation for cell in result.cells)
    assert sum(spent) + scoring >= server.seen("all-21")["rows"] > 120
    assert all(cell.spending.unconfirmed > 0 for cell in result.cells)


def test_an_audit_of_a_hopeless_server_is_inconclusive(server, tmp_path) -> None:
    result = audit(small_audit(server.model("nan-99.9"), retries=1), out=tmp_path)
    assert result.exit_code == 4
    assert all("NaN" in cell.error for cell in result.cells)


def test_a_server_that_is_not_there(server) -> None:
    with pytest.raises(VictimError, match="no connection could be made"):
        load_victim("http://127.0.0.1:9/v2/models/x", remote={"retries": 1})


def test_the_key_is_sent_and_shown_nowhere(server, ask, monkeypatch, caplog) -> None:
    monkeypatch.setenv("SHOP_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    victim = ask("keyed", key_env="SHOP_KEY")
    x = points(8)
    agree(Oracle(victim, "probs").query(x), x)
    with pytest.raises(VictimError) as caught:  # this one echoes the header
        Oracle(ask("reject", key_env="SHOP_KEY"), "probs").query(x)
    monkeypatch.setenv("SHOP_KEY", "wrong-" + KEY)
    with pytest.raises(UsageError, match=r"denies access \(401\); check SHOP_KEY") as denied:
        Oracle(ask("keyed", key_env="SHOP_KEY"), "probs").query(x)
    monkeypatch.setenv("SHOP_KEY", KEY + "\nx")
    with pytest.raises(UsageError, match="cannot carry") as unfit:
        ask("keyed", key_env="SHOP_KEY")
    shown = f"{caught.value} {denied.value} {unfit.value} {caplog.text} {victim.spec} {vars(victim)}"
    assert KEY not in shown
    monkeypatch.delenv("SHOP_KEY")
    with pytest.raises(UsageError, match="SHOP_KEY holds no key"):
        ask("keyed", key_env="SHOP_KEY")


def test_requests_leave_no_faster_than_allowed(server, ask) -> None:
    victim = ask("well-1", rps=50, concurrency=8)
    start = time.monotonic()
    victim.compute(points(88), Question(torch.Generator()))
    assert time.monotonic() - start >= 10 / 50, "ten pauses between eleven requests"


class CountedPace:
    """Lets everything go and counts it."""

    def __init__(self) -> None:
        self.left, self._lock = 0, threading.Lock()

    def wait(self, stop: threading.Event) -> None:
        with self._lock:
            self.left += 1

    def hold(self, seconds: float) -> None:
        raise AssertionError(f"nobody asked to wait {seconds} s")


def test_a_shared_pace_is_asked_for_every_request_from_the_first_on(server) -> None:
    pace, x = CountedPace(), points(88)
    victim = load_victim(server.model("well-1"), remote={"rows": 8, "rps": 0.001}, share=Share(pace, connections=2))
    assert pace.left == 1, "the metadata"
    agree(Oracle(victim, "probs").query(x), x)
    assert pace.left == 12
    assert victim.batch == load_victim(server.model("well-1"), remote={"rows": 8}).batch, (
        "pieces seed a defense's noise"
    )


@pytest.mark.parametrize(
    ("source", "remote", "sentence"),
    [
        ("https://api.example.com/v2/models/x", {}, "api.example.com is not this machine; say who allowed"),
        ("http://127.0.0.1.example.com/v2/models/x", {}, "is not this machine"),
        ("http://0.0.0.0/v2/models/x", {}, "is not this machine"),
        ("http://127.1/v2/models/x", {}, "is not this machine"),
        ("http://me:secret@127.0.0.1/v2/models/x", {}, "without a password"),
        ("http://[::1/v2/models/x", {}, "expected an address such as"),
        ("http://127.0.0.1:80/predict", {}, "describe other JSON APIs in a .toml file"),
        ("http://127.0.0.1:80/v2/models/x", {"rsp": 3}, "a remote victim has no setting 'rsp'.* 'rps'"),
        ("http://127.0.0.1:80/v2/models/x", {"rps": 0}, "a remote victim: 'rps'"),
        ("http://127.0.0.1:80/v2/models/x", {"authorized_by": " "}, "a remote victim: 'authorized_by'"),
        ("shop.models:net", {"rps": 1}, "expected remote settings only for"),
    ],
)
def test_what_may_not_be_asked(source, remote, sentence) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        load_victim(source, remote=remote)
    assert "secret" not in str(caught.value)


def test_another_machine_is_asked_on_somebodys_word(monkeypatch) -> None:
    metadata = {"inputs": [{"name": "x", "shape": [-1, 2], "datatype": "FP32"}]}
    monkeypatch.setattr("leakmeter.victims.remote.client.Client.get", lambda self, url, read: metadata)
    facts = {"low": 0.0, "high": 1.0, "classes": 3, "outputs": "logits"}
    victim = load_victim("https://api.example.com/v2/models/x", remote={"authorized_by": "R. Doe, ticket 7"}, **facts)
    assert victim.authorized_by == "R. Doe, ticket 7"


def test_a_server_without_metadata_is_described_by_keyword(server) -> None:
    facts = {"input_shape": (4,), "low": 0.0, "high": 1.0, "classes": 3, "outputs": "probs"}
    for missing in facts:
        with pytest.raises(UsageError, match=missing):
            load_victim(server.model("silent"), **{name: facts[name] for name in facts if name != missing})
    with pytest.raises(UsageError, match=r"it says nothing of http://.*/silent: check the address"):
        load_victim(server.model("silent"))
    victim = load_victim(server.model("silent"), **facts)
    x = points(5).float()
    agree(Oracle(victim, "probs").query(x), x)
    victim.close()


def test_rows_of_another_length_than_the_server_names_are_refused(server) -> None:
    with pytest.raises(UsageError, match=r"expected inputs of shape \(4,\), as the server says, got \(7,\)"):
        load_victim(server.model("good"), input_shape=(7,))


DESCRIPTION = """
url = "{address}/classify"
answer = "results.*.{answer}"
names = ["cat", "dog", "eel"]
outputs = "{outputs}"
input_shape = [4]
low = 0
high = inf
[request]
version = 2
images = {{pixels = "{{rows}}"}}
"""


@pytest.mark.parametrize(("answer", "outputs"), [("scores", "probs"), ("best", "labels")])
def test_other_apis_are_described_in_a_file(server, tmp_path, answer, outputs) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(DESCRIPTION.format(address=server.address, answer=answer, outputs=outputs))
    victim = load_victim(file)
    assert (victim.spec.classes, victim.spec.high) == (3, None)
    x, before = points(70).float(), server.seen("classify")["rows"]
    shown = Oracle(victim, outputs).query(x)
    if outputs == "probs":
        agree(shown, x)
    assert torch.equal(shown.labels, right(x).argmax(1))
    assert server.seen("classify")["rows"] - before == 70
    victim.close()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('pixels = "{rows}"', "pixels = 1"), "once in the request"),
        (("outputs", "outptus"), "has no key 'outptus'; did you mean 'outputs'"),
        (("url", "URL ="), "cannot read the description"),
        (
            ("[request]", '[headers]\nAuthorization = "Bearer abc"\n[request]'),
            "expected {key}, at most with a word such as Bearer before it, in the header",
        ),
        (("[request]", '[headers]\nx-key = "{key}"\n[request]'), "the header x-key needs a key"),
    ],
)
def test_a_wrong_description_is_told(tmp_path, change, sentence) -> None:
    file = tmp_path / "shop.toml"
    good = DESCRIPTION.format(address="http://127.0.0.1:9", answer="scores", outputs="probs")
    file.write_text(good.replace(*change, 1))
    with pytest.raises(UsageError, match=sentence) as caught:
        load_victim(file)
    assert "abc" not in str(caught.value)


def test_metadata_of_the_servers_in_use() -> None:
    triton = {
        "inputs": [{"name": "INPUT__0", "datatype": "FP32", "shape": [-1, 3, 32, 32]}],
        "outputs": [{"name": "OUTPUT__0", "datatype": "FP32", "shape": [-1, 10]}],
    }
    wire = OpenInference("http://h/v2/models/m", triton)
    assert wire.facts == Facts(input_shape=(3, 32, 32), dtype=torch.float32, classes=10)
    sent = json.loads(wire.encode(np.zeros((2, 3, 32, 32), np.float32)))
    assert sent["inputs"][0] | {"data": []} == {
        "name": "INPUT__0",
        "shape": [2, 3, 32, 32],
        "datatype": "FP32",
        "data": [],
    }
    assert len(sent["inputs"][0]["data"]) == 2 * 3 * 32 * 32
    assert sent["outputs"] == [{"name": "OUTPUT__0"}]

    mlserver = OpenInference("http://h/v2/models/m", {"inputs": [], "outputs": []}, "predict_proba")
    assert mlserver.facts == Facts(outputs="probs")
    assert json.loads(mlserver.encode(np.zeros((1, 4), np.float32)))["outputs"] == [{"name": "predict_proba"}]
    nested = {"outputs": [{"name": "predict_proba", "shape": [2, 2], "data": [[0.5, 0.5], [0.1, 0.9]]}]}
    assert mlserver.decode(json.dumps(nested).encode()).tolist() == [[0.5, 0.5], [0.1, 0.9]]

    two = triton | {"outputs": [*triton["outputs"], {"name": "probs", "shape": [-1, 10]}]}
    with pytest.raises(UsageError, match="has the outputs OUTPUT__0, probs; choose one"):
        OpenInference("http://h/v2/models/m", two)
    assert OpenInference("http://h/v2/models/m", two, "probs").facts.outputs == "probs"
    single = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4]}]}
    assert OpenInference("http://h/v2/models/m", single).rows == 1
    with pytest.raises(UsageError, match=r"expected an input of numbers .*, got BYTES"):
        OpenInference("http://h/v2/models/m", {"inputs": [{"name": "x", "datatype": "BYTES"}]})


def test_inputs_of_whole_numbers_are_rounded_and_bring_their_range() -> None:
    pixels = {"inputs": [{"name": "x", "datatype": "UINT8", "shape": [-1, 2, 2, 3]}]}
    wire = OpenInference("http://h/v2/models/m", pixels)
    assert (wire.facts.low, wire.facts.high, wire.facts.dtype) == (0.0, 255.0, torch.float32)
    (sent,) = json.loads(wire.encode(np.full((1, 2, 2, 3), 254.6, np.float32)))["inputs"]
    assert (sent["datatype"], sent["data"]) == ("UINT8", [255] * 12)
    assert OpenInference("http://h/v2/models/m", {"inputs": [{"name": "x", "datatype": "INT64"}]}).facts.low is UNSAID
    silent = OpenInference("http://h/v2/models/m", {})
    (sent,) = json.loads(silent.encode(np.zeros((1, 4), np.int64)))["inputs"]  # prepared as dtype = "int64" says
    assert (sent["datatype"], sent["data"]) == ("INT64", [0] * 4)


KSERVE = """{"model_name":"iris","model_version":null,"id":"7d9c","parameters":null,"outputs":[{"name":"output-0",
"shape":[2],"datatype":%s,"parameters":null,"data":%s}]}"""


def test_answers_as_kserve_writes_them() -> None:
    """Taken down from kserve 0.21.0: metadata that say nothing, parameters that are null, labels as words."""
    said = {"name": "iris", "versions": None, "platform": "", "inputs": [], "outputs": []}
    wire = OpenInference("http://h/v2/models/iris", said)
    assert wire.facts == Facts()
    assert wire.decode((KSERVE % ('"INT64"', "[0,2]")).encode()).tolist() == [0, 2]
    words = (KSERVE % ('"BYTES"', '["setosa","virginica"]')).encode()
    with pytest.raises(Misdescribed, match="say the names of the classes in order"):
        wire.decode(words)
    named = OpenInference("http://h/v2/models/iris", said, None, ("setosa", "versicolor", "virginica"))
    assert named.decode(words).tolist() == [0, 2]
    with pytest.raises(BadAnswer, match="other classes than were named"):
        OpenInference("http://h/v2/models/iris", said, None, ("a", "b")).decode(words)


def first(address: str, output: str | None = None, names: tuple[str, ...] | None = None) -> Template:
    description = first_protocol(address, output)
    assert description is not None
    return Template(description, names)


def test_the_first_protocol_of_kserve_and_tensorflow_serving() -> None:
    wire = first("http://h:8080/v1/models/iris")
    assert wire.url == first("http://h:8080/v1/models/iris:predict").url == "http://h:8080/v1/models/iris:predict"
    assert json.loads(wire.encode(np.ones((2, 2), np.float32))) == {"instances": [[1, 1], [1, 1]]}
    assert wire.decode(b'{"predictions":[[0.9,0.1],[0.2,0.8]]}').tolist() == [[0.9, 0.1], [0.2, 0.8]]
    assert wire.decode(b'{"predictions":[0,2]}').tolist() == [0, 2]
    assert first("http://h/v1/models/m", names=("cat", "dog")).decode(b'{"predictions":["dog"]}').tolist() == [1]
    several = b'{"predictions":[{"probs":[0.9,0.1],"embedding":[1,2,3]}]}'
    assert first("http://h/v1/models/m/versions/3:predict", "probs").decode(several).tolist() == [[0.9, 0.1]]
    with pytest.raises(BadAnswer, match="choose one of several outputs"):
        wire.decode(several)
    assert first_protocol("http://h/v2/models/m", None) is None
    assert first_protocol("http://h/v1/models/m:explain", None) is None


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert retry_after("7") == 7
    assert retry_after(None) is None
    assert retry_after("soon") is None
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert retry_after(later) == pytest.approx(30, abs=3)
    assert retry_after("Sun, 06 Nov 1994 08:49:37 GMT") == 0
    assert retry_after("Sunday, 06-Nov-94 08:49:37 GMT") == 0


def test_waiting_grows_and_ends() -> None:
    waits = [backoff(k) for k in range(1, 20)]
    assert waits[0] == 0.05
    assert waits == sorted(waits)
    assert waits[-1] == backoff(10**6) == 10


def test_a_pause_holds_for_every_thread() -> None:
    pace = OwnPace(None)
    pace.hold(0.2)
    start = time.monotonic()
    threads = [threading.Thread(target=pace.wait, args=(threading.Event(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start >= 0.2
