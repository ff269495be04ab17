"""`leakmeter probe`: a server's own words, one answer, and a plan that is valid."""

from __future__ import annotations

import json
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from typer.testing import CliRunner

from leakmeter.cli import app
from leakmeter.errors import UsageError
from leakmeter.plan import make_plan

pytest.importorskip("httpx")


@pytest.fixture
def address():
    """A server as others write them: it names its input and its output, and nothing else."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bare = "bare" in self.path
            inputs = [] if bare else [{"name": "rows", "datatype": "FP32", "shape": [-1, 4]}]
            self._send({"name": "m", "inputs": inputs, "outputs": []})

        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            data = [0.25, 0.5, 0.25]
            self._send({"outputs": [{"name": "p", "datatype": "FP32", "shape": [1, 3], "data": data}]})

        def _send(self, document: dict) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v2/models", asked
    server.shutdown()
    server.server_close()


def test_one_row_is_asked_and_the_plan_fits(address) -> None:
    url, asked = address
    found = CliRunner().invoke(app, ["probe", f"{url}/m"])
    assert found.exit_code == 0, found.output
    assert "input shape: (4,)" in found.stdout
    assert "range: not said" in found.stdout
    assert "one answer: shape (1, 3): 0.25, 0.5, 0.25  (1 query)" in found.stdout
    assert len(asked) == 1
    text = found.stdout.split("\n\n", 1)[1]
    assert text.startswith("# low and high are guesses")
    plan = make_plan(tomllib.loads(text))
    assert (plan.victim.outputs, plan.victim.classes, plan.victim.input_shape) == ("probs", 3, (4,))


def test_a_shape_nobody_says_is_asked_for(address) -> None:
    url, asked = address
    found = CliRunner().invoke(app, ["probe", f"{url}/bare"])
    assert isinstance(found.exception, UsageError)
    assert "pass --input-shape" in str(found.exception)
    assert asked == []
    flags = ["--input-shape", "4", "--low", "0", "--high", "9"]
    again = CliRunner().invoke(app, ["probe", f"{url}/bare", *flags])
    assert again.exit_code == 0, again.output
    assert make_plan(tomllib.loads(again.stdout.split("\n\n", 1)[1])).victim.high == 9
