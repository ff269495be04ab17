"""Errors a new user meets, read: each says what to do, in the words of the flag, the key or the keyword."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from leakmeter._audit import flow
from leakmeter.cli import app
from leakmeter.commands.options import ModelFlags, VictimFlags, given
from leakmeter.errors import Stopped, UsageError, VictimError
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import make_plan
from leakmeter.victims.load import load_victim

LINEAR = """
import numpy as np
def model():
    return lambda x: x @ np.arange(12.0).reshape(4, 3) % 1.7
"""


def test_a_joblib_file_is_refused_with_the_two_lines_to_write_instead(tmp_path) -> None:
    (tmp_path / "m.joblib").write_bytes(b"")
    with pytest.raises(UsageError, match=r"own.py:model .*`import joblib` and `def model\(\): return joblib.load"):
        load_victim(tmp_path / "m.joblib")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"policy": {"max_fidelity": 0.9}}, r"'policy.max_fidelity': expected a section with the keys queries, value"),
        ({"victim": {"source": "a:b", "layout": "hwc"}}, "'victim.layout': input should be 'nchw' or 'nhwc'"),
        ({"victim": {"source": "a:b", "lauout": "nhwc"}}, "no key 'victim.lauout'; did you mean 'layout'"),
    ],
)
def test_a_plan_is_explained_in_its_own_words(content: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        make_plan({"victim": {"source": "a:b"}} | content)
    assert "instance of" not in str(caught.value)


def test_inputs_outside_the_box_name_the_flags() -> None:
    victim = load_victim(lambda x: x, input_shape=(3,), low=0.0, high=1.0)
    with pytest.raises(UsageError, match=r"got 2 in 1 of 2 inputs; .*--low, --high: those of raw inputs"):
        Oracle(victim, "logits").query(torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]))


def test_flags_become_the_keys_of_a_plan() -> None:
    flags = ModelFlags(
        input_shape="H=224,W=224",
        low="-1,0",
        high="1",
        classes="cat, dog",
        fix=["sr=16000", "state=[0.0, 1.0]"],
        mean="0.5,0.5,0.5",
        resize="224,224",
        output="scores",
    )
    section = given(VictimFlags(victim="m.onnx", rows=8).section(flags))
    assert section == {
        "source": "m.onnx",
        "sizes": {"H": 224, "W": 224},
        "low": [-1.0, 0.0],
        "high": 1.0,
        "classes": ["cat", "dog"],
        "inputs": {"sr": 16000, "state": [0.0, 1.0]},
        "mean": [0.5, 0.5, 0.5],
        "resize": [224, 224],
        "output": "scores",
        "remote": {"rows": 8},
    }
    assert make_plan({"victim": section}).victim.keywords()["classes"] == ("cat", "dog")
    assert ModelFlags(classes="10", input_shape="1,28,28").section("m")["classes"] == 10
    for wrong, sentence in (
        (ModelFlags(low="small"), "expected --low to be a number, or several with commas between, got 'small'"),
        (ModelFlags(input_shape="H=x"), "expected --input-shape to be like 3,224,224 or like H=224,W=224, got 'H=x'"),
        (ModelFlags(fix=["sr"]), "expected --fix KEY=VALUE, got 'sr'"),
    ):
        with pytest.raises(UsageError, match=sentence):
            wrong.section("m")


class Server:
    """Answers every request alike, and counts them."""

    def __init__(self, status: int, answer: object) -> None:
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def describe(self, folder: Path) -> str:
        (folder / "api.toml").write_text(
            f'url = "http://127.0.0.1:{self._server.server_port}/"\nanswer = "scores"\noutputs = "logits"\n'
            'classes = 3\ninput_shape = [4]\nlow = 0.0\nhigh = 1.0\n[request]\nrows = "{rows}"\n'
        )
        return str(folder / "api.toml")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize(
    ("status", "answer", "sentence"),
    [
        (200, {"scores": [[1.0, 2.0]]}, r"shape \(1, 2\) instead of \(1, 3\); set classes .*output=NAME.*--output"),
        (413, {}, r"too large \(413\); send fewer rows in each: set rows, on the command line --rows 8"),
    ],
)
def test_what_a_server_will_do_again_is_asked_once(tmp_path, status: int, answer: dict, sentence: str) -> None:
    pytest.importorskip("httpx")
    server = Server(status, answer)
    oracle = Oracle(load_victim(server.describe(tmp_path)), "labels", budget=50)
    with pytest.raises(VictimError, match=sentence):
        oracle.query(torch.zeros(1, 4))
    assert (server.asked, oracle.ledger.spent("attack")) == (1, 1)
    server.close()


def quick(folder: Path) -> dict:
    (folder / "own.py").write_text(LINEAR)
    np.savez(folder / "own.npz", x=np.random.default_rng(0).random((40, 4)).astype(np.float32))
    return {
        "victim": {"source": f"{folder}/own.py:model", "outputs": "logits", "low": 0.0, "high": 1.0},
        "data": {"name": f"{folder}/own.npz"},
        "attacks": [{"name": "surrogate", "recipe": {"steps": 20, "lr": 0.01}}],
        "budget": 20,
        "seeds": [0],
        "views": ["labels"],
        "detectors": [],
    }


def test_an_interrupted_audit_says_how_to_go_on_and_does(tmp_path, monkeypatch) -> None:
    run_cells = flow.run_cells

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(flow, "run_cells", interrupted)
    with pytest.raises(Stopped, match="this goes on, and asks nothing twice: leakmeter audit --resume") as caught:
        flow.audit(quick(tmp_path), out=tmp_path / "runs")
    assert isinstance(caught.value, KeyboardInterrupt)
    import tomli_w

    (tmp_path / "plan.toml").write_text(tomli_w.dumps(quick(tmp_path)))
    asked = ["audit", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "runs"), "--display", "plain"]
    ended = CliRunner().invoke(app, asked)
    assert ended.exit_code == 130
    assert "--resume" in ended.stderr
    opening, run, *_ = ended.stderr.splitlines()
    assert opening == f"opening {quick(tmp_path)['victim']['source']}"  # at once, before anything is loaded
    assert run.startswith(f"run: {tmp_path / 'runs'}")
    monkeypatch.setattr(flow, "run_cells", run_cells)
    result = flow.audit(quick(tmp_path), resume=caught.value.folder)
    assert result.verdict.outcome in ("measured", "undecided")


def test_studies_say_what_they_do() -> None:
    before = set(sys.modules)
    listed = CliRunner().invoke(app, ["study"]).stdout.splitlines()
    assert len(listed) > 15
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in listed)
    assert not any(name.startswith("leakmeter.studies.stn.fig") for name in set(sys.modules) - before)


@pytest.mark.parametrize("command", [["evade", "pgd"], ["certify", "--sigma", "0.1"]])
def test_what_needs_the_network_says_what_a_server_allows(tmp_path, command: list[str]) -> None:
    np.savez(tmp_path / "test.npz", x=np.random.default_rng(0).random((20, 4)), y=np.arange(20) % 3)
    server = Server(200, {"scores": [[1.0, 2.0, 3.0]]})
    asked = [*command, "--victim", server.describe(tmp_path), "--data", str(tmp_path / "test.npz")]
    ended = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "runs")])
    server.close()
    assert isinstance(ended.exception, UsageError), ended.output
    assert "answers over HTTP only; make adversarial examples on a copy of it" in str(ended.exception)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "the plan lacks 'victim'; on the command line --victim, such as --victim model.onnx"),
        ({"victim": {"sorce": "own.py:net"}}, "the plan has no key 'victim.sorce'; did you mean 'source'?"),
        ({"victim": {"source": "m.onnx"}, "data": {}}, "the plan lacks 'data.name'; on the command line --data"),
    ],
)
def test_what_a_plan_lacks_is_told_in_words_of_the_command_line(content: dict, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_plan(content)
    assert str(caught.value).startswith(sentence)


def test_a_file_of_code_needs_a_name_in_it() -> None:
    with pytest.raises(UsageError, match=r"got 'own\.py'; name the function in it .* such as own\.py:model"):
        load_victim("own.py")
