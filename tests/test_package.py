"""What is installed: one version, types and licence inside, completion, and a wheel that works on its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leakmeter
from leakmeter.cli import app
from leakmeter.demo import PLAN, QUICK
from leakmeter.plan import make_plan

ROOT = Path(__file__).parents[1]


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/leakmeter/__init__.py"
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == leakmeter.__version__
    newest = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert newest.split()[1] == leakmeter.__version__


def test_shells_can_complete() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


def test_the_action_runs_the_plan_and_the_hook_only_looks_at_it() -> None:
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    commands = [step.get("run", "") for step in steps]
    assert 'leakmeter audit "$PLAN" --out "$OUT" --display plain' in commands
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "leakmeter audit --dry-run"


def test_the_shell_part_of_the_action_ends_with_the_code_of_the_audit(tmp_path) -> None:
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (command,) = [step["run"] for step in steps if "leakmeter audit" in step.get("run", "")]
    (tmp_path / "leakmeter").write_text(f'#!/bin/sh\nexec {sys.executable} -m leakmeter "$@"\n')
    (tmp_path / "leakmeter").chmod(0o755)
    (tmp_path / "no victim.toml").write_text("budget = 5\n")
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PLAN": "no victim.toml", "OUT": "a b"}
    ended = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, "the plan lacks 'victim'" in ended.stderr) == (2, True)


@pytest.mark.slow
def test_the_wheel_works_on_its_own(tmp_path) -> None:
    pytest.importorskip("build")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert "leakmeter/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert wheel.name.startswith(f"leakmeter-{leakmeter.__version__}-")
    env = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    demo = [sys.executable, "-m", "leakmeter", "audit", "--victim", "leakmeter.demo:digits_victim", "--data", "digits"]
    demo += ["--attack", "surrogate", "--budget", "50", "--seed", "0", "--view", "labels", "--executor", "inline"]
    ended = subprocess.run(demo, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 4), ended.stderr
    assert list(tmp_path.glob("runs/*/report.html"))


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d"]
    subprocess.run([*command, str(tmp_path)], check=True, capture_output=True)
    assert "load_victim" in (tmp_path / "reference" / "index.html").read_text()
    assert "nhwc" in (tmp_path / "first-try" / "index.html").read_text()


@pytest.mark.parametrize("plan", [PLAN, QUICK])
def test_the_plans_of_the_demo_are_sound(plan: dict[str, Any]) -> None:
    checked = make_plan(plan)
    assert checked.victim.low == 0.0
    assert checked.victim.high == 1.0
