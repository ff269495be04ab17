"""Servers that others wrote, started for real on this machine and audited end to end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import leakmeter as lm
from leakmeter.results import AuditResult

pytestmark = pytest.mark.slow

IRIS = """
import joblib, numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

x, y = load_iris(return_X_y=True)
joblib.dump(LogisticRegression(max_iter=500).fit(x, y), "model.joblib")
"""
APP = """
import joblib
from fastapi import FastAPI
from pydantic import BaseModel

model, app = joblib.load("model.joblib"), FastAPI()

class Flowers(BaseModel):
    flowers: list[list[float]]

@app.post("/classify")
def classify(asked: Flowers) -> dict:
    return {"answers": [{"scores": row} for row in model.predict_proba(asked.flowers).tolist()]}
"""
KSERVE = """
import sys
from kserve import Model, ModelServer
from kserve.utils.utils import get_predict_input, get_predict_response
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

iris = load_iris()

class Iris(Model):
    def __init__(self, name, method, classes):
        super().__init__(name)
        self.method, self.model, self.ready = method, LogisticRegression(max_iter=500).fit(iris.data, classes), True

    def predict(self, payload, headers=None, response_headers=None):
        result = getattr(self.model, self.method)(get_predict_input(payload))
        return get_predict_response(payload, result.tolist() if result.dtype.kind == "U" else result, self.name)

models = [
    Iris("scores", "predict_proba", iris.target),
    Iris("labels", "predict", iris.target),
    Iris("words", "predict", iris.target_names[iris.target]),
]
ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, workers=1).start(models)
"""
DESCRIPTION = """
url = "http://127.0.0.1:{port}/classify"
answer = "answers.*.scores"
outputs = "probs"

[request]
flowers = "{{rows}}"
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(command: list[str], folder: Path, health: str) -> Iterator[None]:
    with (folder / "log").open("w") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            for _ in range(240):
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                try:
                    urllib.request.urlopen(health, timeout=1)
                    break
                except OSError:
                    time.sleep(0.5)
            yield
        finally:
            process.kill()


def audited(folder: Path, source: str, **facts: object) -> AuditResult:
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    np.savez(folder / "iris.npz", x=x.astype(np.float32), y=y)
    plan = {
        "victim": {"source": source, "input_shape": [4], "low": 0.0, "high": 8.0, **facts},
        "data": {"name": str(folder / "iris.npz")},
        "attacks": [{"name": "surrogate"}],
        "views": ["labels"],
        "budget": 100,
        "seeds": [0],
    }
    return lm.audit(plan, out=folder / "runs", progress=False)


def test_an_application_with_its_own_json(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    (tmp_path / "app.py").write_text(APP)
    subprocess.run([sys.executable, "-c", IRIS], cwd=tmp_path, check=True)
    port = free_port()
    (tmp_path / "api.toml").write_text(DESCRIPTION.format(port=port))
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    with running(command, tmp_path, f"http://127.0.0.1:{port}/openapi.json"):
        found = audited(tmp_path, str(tmp_path / "api.toml"), classes=3)
    assert found.cells[0].spending.queries == 100
    assert found.verdict.arms[0].fidelity > 0.5


def environment(folder: Path, *packages: str) -> Path:
    """The folder of programs of an environment that has the packages; the test is skipped where they do not install."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    programs = folder / "env" / "bin"
    made = subprocess.run([programs / "pip", "install", "-q", *packages], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"{packages[0]} cannot be installed here: {made.stderr.strip().splitlines()[-1]}")
    return programs


@pytest.mark.parametrize("output", ["predict_proba", "predict"])
def test_mlserver_with_a_scikit_learn_model(tmp_path: Path, output: str) -> None:
    bin_folder = environment(tmp_path, "mlserver==1.7.1", "mlserver-sklearn==1.7.1")
    subprocess.run([bin_folder / "python", "-c", IRIS], cwd=tmp_path, check=True)
    port = free_port()
    model = {"name": "iris", "implementation": "mlserver_sklearn.SKLearnModel", "parameters": {"uri": "./model.joblib"}}
    server = {"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(), "metrics_port": free_port()}
    (tmp_path / "model-settings.json").write_text(json.dumps(model))
    (tmp_path / "settings.json").write_text(json.dumps(server | {"parallel_workers": 0}))
    address = f"http://127.0.0.1:{port}/v2/models/iris"
    facts = {"outputs": "probs" if output == "predict_proba" else "labels", "classes": 3}
    with running([str(bin_folder / "mlserver"), "start", "."], tmp_path, f"{address}/ready"):
        found = audited(tmp_path, address, output=output, **facts)
    assert found.cells[0].spending.queries == 100
    assert found.verdict.arms[0].fidelity > 0.5


@pytest.fixture(scope="module")
def kserve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """KServe's Python server with three models, written as its own server of scikit-learn models is."""
    folder = tmp_path_factory.mktemp("kserve")
    programs, port = environment(folder, "kserve==0.21.0", "scikit-learn"), free_port()
    (folder / "server.py").write_text(KSERVE)
    address = f"http://127.0.0.1:{port}"
    with running([str(programs / "python"), "server.py", str(port)], folder, f"{address}/v2/health/ready"):
        yield address


@pytest.mark.parametrize("path", ["v2/models/{}", "v1/models/{}:predict"])
@pytest.mark.parametrize(
    ("model", "facts"),
    [
        ("scores", {"outputs": "probs", "classes": 3}),
        ("labels", {"outputs": "labels", "classes": 3}),
        ("words", {"outputs": "labels", "classes": ["setosa", "versicolor", "virginica"]}),
    ],
)
def test_kserve_in_both_of_its_protocols(
    tmp_path: Path, kserve: str, path: str, model: str, facts: dict[str, object]
) -> None:
    found = audited(tmp_path, f"{kserve}/{path.format(model)}", **facts)
    assert found.cells[0].spending.queries == 100
    assert found.verdict.arms[0].fidelity > 0.5
