"""The example package, installed as a stranger would: its attack and its defense work in a plan and as flags."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leakmeter.extraction.conformance import check_attack

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "examples" / "plugin"
SHOP = """
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""
PLAN = """
budget = 100
views = ["probs"]
seeds = [0]
defenses = ["none", "tempering:4"]
data = {name = "digits"}
victim = {source = "shop.py:net"}
attacks = [{name = "uniform", student = "linear", recipe = {steps = 20}}]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package was installed into."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(SOURCE, folder / "source")  # a build leaves files beside the sources
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    flags = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *flags, str(folder / "source")], check=True, capture_output=True)
    return folder / "site"


def leakmeter(installed: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT / "src"), str(installed)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "leakmeter", *args, "--display", "none"]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_an_installed_attack_and_defense_work_in_a_plan(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "plan.toml").write_text(PLAN)
    done = leakmeter(installed, tmp_path, "audit", "plan.toml", "--executor", "local:1")
    (results,) = tmp_path.glob("runs/*/results.json")
    cells = json.loads(results.read_text())["cells"]
    assert [(cell["attack"], cell["defense"], cell["status"]) for cell in cells] == [
        ("uniform", "none", "done"),
        ("uniform", "tempering:4", "done"),
        ("uniform", "none", "skipped"),  # it cannot use labels alone
    ], done.stderr


def test_an_installed_attack_works_as_an_argument_and_says_where_it_does_not(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    flags = ["--victim", "shop.py:net", "--data", "digits", "--budget", "50", "-S", "recipe.steps=5"]
    done = leakmeter(installed, tmp_path, "extract", "uniform", *flags, "--defense", "tempering:2")
    assert done.returncode in (0, 4), done.stderr
    refused = leakmeter(installed, tmp_path, "extract", "uniform", *flags, "--view", "labels")
    assert refused.returncode == 2
    assert "'uniform' needs more than labels to learn from, got the view 'labels'" in refused.stderr


def test_the_page_on_adding_an_attack_runs_and_is_the_attack_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "adding-an-attack.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert code == (SOURCE / "leakmeter_example" / "uniform.py").read_text()
    (tmp_path / "page_on_attacks.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    page_module = importlib.import_module("page_on_attacks")
    check_attack(page_module.Uniform(student="linear", recipe={"steps": 5}))
