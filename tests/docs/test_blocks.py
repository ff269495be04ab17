"""Every block of code in the pages and the README runs, or is checked by what would read it.

Sizes are made small here; `adding-*.md` have a test of their own.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
import typer
from torch import nn

import leakmeter as lm
from leakmeter.cli import app
from leakmeter.models import make_model
from leakmeter.plan import make_plan

ROOT = Path(__file__).parents[2]
PAGES = [path for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"] if "adding" not in path.name]
SMALLER = {
    "20_000": "40",
    "epochs=30": "epochs=1",
    "n=10_000": "n=60",
    "budget=5000": "budget=120",
    'student="milli-conv", seed=0': 'student="milli-conv", seed=0, recipe={"steps": 3}',
    '"auto", oracle, seed=0': '"auto", oracle, seed=0, effort=0.02',
    '"boundary", oracle, x, y, seed=0': '"boundary", oracle, x, y, seed=0, steps=3',
}


def blocks(*kinds: str) -> list[Any]:
    found = [
        (page.name, text)
        for page in PAGES
        for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        if kind in kinds
    ]
    return [pytest.param(page, text, id=f"{page}-{number}") for number, (page, text) in enumerate(found)]


class Net(nn.Module):
    """Two classes of a small input, whatever its shape."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(features, 6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def names(page: str) -> dict[str, Any]:
    """What a reader of the page has by then."""
    torch.manual_seed(0)
    shape = (1, 28, 28) if page in ("exact.md", "README.md", "explanations.md") else (1, 8, 8)
    net = make_model("mlp:4", shape, 3)
    x = torch.rand(12, *shape)
    victim = lm.load_victim(net, input_shape=shape, low=0.0, high=1.0)
    beside = {"x": x, "y": net(x).argmax(1), "net": net, "model": net, "images": x, "victim": victim, "lm": lm}
    oracle = lm.Oracle(victim, view="labels", budget=4000)
    copy = lm.extract("surrogate", lm.Oracle(victim, view="probs", budget=20), seed=0, recipe={"steps": 5})
    return beside | {"x_test": x[:4], "y_test": beside["y"][:4], "oracle": oracle, "copy": copy}


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(
    ("page", "code"), [each for each in blocks("python") if each.values[0] not in ("first-try.md", "remote.md")]
)
def test_python_runs(page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "models.py").write_text(
        "from leakmeter.models import make_model\ndef fraud_net():\n    return make_model('mlp:4', (1, 28, 28), 3)\n"
    )
    for large, small in SMALLER.items():
        code = code.replace(large, small)
    exec(compile(code, page, "exec"), names(page))


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_plans_are_plans(page: str, text: str, tmp_path: Path) -> None:
    if page == "remote.md":
        from leakmeter.victims.remote.template import read_description

        (tmp_path / "api.toml").write_text(text)
        assert read_description(tmp_path / "api.toml")
        return
    content = tomllib.loads(text)
    assert make_plan({"victim": {"source": "shop.py:net"}} | content)


@pytest.mark.parametrize(("page", "text"), blocks("console", ""))
def test_commands_have_these_flags(page: str, text: str) -> None:
    root = typer.main.get_command(app)
    for line in text.splitlines():
        words = shlex.split(re.sub(r"^(head|other)?\$\s+", "", line), comments=True)
        if words[:1] != ["leakmeter"]:
            continue
        command = root.commands[words[1]]  # type: ignore[attr-defined]
        command.make_parser(click.Context(command)).parse_args(words[2:])


@pytest.mark.parametrize(("page", "text"), blocks("yaml"))
def test_yaml_is_yaml(page: str, text: str) -> None:
    assert pytest.importorskip("yaml").safe_load(text)


@pytest.fixture
def transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, installed for this test only where it is not there: it takes the torch that is."""
    if importlib.util.find_spec("transformers") is None:
        install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "packages"), "transformers"]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            pytest.skip("transformers cannot be installed here")
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packages")])
    return importlib.import_module("transformers")


@pytest.mark.slow
def test_a_folder_of_hugging_face_is_a_victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transformers) -> None:
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=8, patch_size=4,
        num_channels=1, id2label={0: "cat", 1: "dog", 2: "eel"}, label2id={"cat": 0, "dog": 1, "eel": 2},
    )  # fmt: skip
    network = transformers.ViTForImageClassification(config).eval()
    network.save_pretrained(tmp_path / "folder")
    ((_, code),) = [each.values for each in blocks("python") if each.values[0] == "first-try.md"]
    (tmp_path / "own.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    victim = lm.load_victim("own.py:model", low=0.0, high=1.0, mean=0.5, std=0.5)
    assert victim.spec.input_shape == (1, 8, 8)
    assert victim.spec.class_names == ("cat", "dog", "eel")
    x = torch.rand(5, 1, 8, 8)
    answers = lm.Oracle(victim, view="logits+gradient", budget=5).query(x)
    assert np.allclose(answers.logits, network(pixel_values=2 * x - 1).logits.detach(), atol=1e-5)
    assert answers.gradients is not None
