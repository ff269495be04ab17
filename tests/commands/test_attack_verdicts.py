"""What an audit says of attacks that do not apply, that collapse, and that copy a model exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakmeter.cli import main

SHOP = """
import torch
from torch import nn

def small():
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3)).double()
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return net

def one_opinion():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    nn.init.zeros_(net[1].weight)
    net[1].bias.data = torch.tensor([5.0, 0.0, 0.0])
    return net

def fair():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""
OPEN = ["--low", "-inf", "--high", "inf", "--display", "none"]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the results where there are any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["leakmeter", *args])
        with pytest.raises(SystemExit) as left:
            main()
    folder = max(Path("runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    results = folder / "results.json"
    return left.value.code, json.loads(results.read_text()) if results.exists() else {}


def checks(result: dict[str, Any]) -> dict[str, bool]:
    return {check["name"]: check["ok"] for check in result["verdict"]["checks"]}


def test_an_exact_copy_without_test_data_reads_as_one() -> None:
    view = ["--view", "logits+gradient", "--budget", "2000"]
    code, result = run("extract", "exact", "--victim", "shop.py:small", *view, *OPEN)
    (cell,), verdict = result["cells"], result["verdict"]
    assert code == 0
    assert verdict["outcome"] != "undecided"
    spent = cell["spending"]["queries"]
    assert verdict["headline"].startswith(f"The model was copied exactly from {spent:,} queries")
    assert all(checks(result).values())
    assert cell["findings"]["complete"]
    assert cell["findings"]["certificate"]["exact"]
    assert cell["curve"][-1]["score"]["fidelity"] == 1.0
    assert any("no test data" in sentence for sentence in verdict["sentences"])


@pytest.mark.parametrize(
    "rule", ["max_fidelity = {queries = 2000, value = 0.95}", "min_copy_cost = {fidelity = 0.9, queries = 2000}"]
)
def test_an_exact_copy_exceeds_every_policy(shop: Path, rule: str) -> None:
    (shop / "plan.toml").write_text(f"""
budget = 2000
views = ["logits+gradient"]
seeds = [0]
victim = {{source = "shop.py:small", low = -inf, high = inf}}
attacks = [{{name = "exact"}}]
policy.{rule}
""")
    code, result = run("audit", "plan.toml", "--display", "none")
    assert (code, result["verdict"]["outcome"]) == (3, "exceeded")


def test_a_budget_too_small_for_an_exact_copy_is_no_verdict() -> None:
    view = ["--view", "logits+gradient", "--budget", "8"]
    _, result = run("extract", "exact", "--victim", "shop.py:small", *view, *OPEN)
    assert result["cells"][0]["findings"]["missing"]
    assert not result["cells"][0]["findings"]["complete"]
    assert "exactly" not in result["verdict"]["headline"]


def test_attacks_that_do_not_apply_are_skipped_and_say_why(shop: Path) -> None:
    learn = "learn = {steps = 20}"
    (shop / "plan.toml").write_text(f"""
budget = 60
stops = [60]
views = ["probs"]
seeds = [0]
data = {{name = "digits"}}
victim = {{source = "shop.py:fair"}}
attacks = [{{name = "exact"}}, {{name = "procedural", student = "linear", committee = 1, lessons = 0, {learn}}}]
""")
    code, result = run("audit", "plan.toml", "--executor", "local:1", "--display", "none")
    skipped, done = result["cells"]
    assert skipped["status"] == "skipped"
    assert "'exact' needs a view with +gradient" in skipped["error"]
    assert "got 'probs'" in skipped["error"]
    assert done["status"] == "done"
    assert code in (0, 4)


def test_an_audit_in_which_every_attack_is_skipped_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--data", "digits", "--budget", "60", "--seed", "0", "--view", "probs", "--display", "none"]
    code, result = run("audit", "--victim", "shop.py:fair", "--attack", "exact", "--attack", "gradients", *flags)
    assert (code, result) == (2, {})
    assert "no attack could run: 'exact' needs a view with +gradient" in capsys.readouterr().err


@pytest.mark.parametrize("attack", ["dast", "dfme", "codfe"])
def test_a_generator_that_collapsed_is_seen(attack: str) -> None:
    options = {"dast": "batch=12", "dfme": "batch=8", "codfe": "noise=20"}[attack]
    flags = ["-S", options, "-S", "width=4", "-S", "student=linear", "--budget", "120", "--display", "none"]
    box = ["--input-shape", "1,8,8", "--low", "0", "--high", "1"]
    code, result = run("extract", attack, "--victim", "shop.py:one_opinion", *box, *flags)
    assert code == 4
    assert result["cells"][0]["findings"]["class_entropy"] == 0
    assert not checks(result)["queries diverse"]
