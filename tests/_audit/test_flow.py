"""One road for every audit: the same folders and results wherever cells run, and no verdict that nobody reached."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

import leakmeter as lm
from leakmeter.cli import main

SHOP = """
import os
import sys
from pathlib import Path

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return self.net(x)

class Quitting(Net):
    def forward(self, x):
        if len(x) > 4:  # not while it is opened
            sys.exit(0)
        return self.net(x)

class QuittingAtOnce(Net):
    def forward(self, x):
        sys.exit(0)

class Vanishing(Net):
    def __init__(self):
        os._exit(0)

class Stopping(Net):
    def forward(self, x):
        if len(x) > 4:
            raise GeneratorExit
        return self.net(x)

class Watching(Net):
    def forward(self, x):
        if x.min() < -0.5 and str(os.getpid()) != Path("driver").read_text():
            Path("below").touch()
        return self.net(x)
"""
PLAN = {
    "victim": {"source": "shop.py:Net", "input_shape": [1, 8, 8], "low": 0.0, "high": 1.0},
    "views": ["probs"],
    "budget": 60,
    "stops": [60],
    "seeds": [0, 1],
    "detectors": [],
    "attacks": [{"name": "surrogate", "student": "linear", "recipe": {"steps": 20}}],
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "driver").write_text(str(os.getpid()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left_with(monkeypatch: pytest.MonkeyPatch, *args: str) -> object:
    monkeypatch.setattr(sys, "argv", ["leakmeter", *args])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code


def weights(run: Path) -> dict[str, torch.Tensor]:
    (path,) = run.glob("cells/*/substitute.safetensors")
    return safetensors.torch.load(path.read_bytes())


def test_a_single_cell_has_the_folder_and_the_bits_of_one_among_many(shop: Path) -> None:
    plan = {**PLAN, "seeds": [1]}
    victim = lm.load_victim("shop.py:Net", input_shape=(1, 8, 8), low=0.0, high=1.0)
    results = [
        lm.audit({**plan, "name": "live"}, victim=victim, out=shop),
        lm.audit({**plan, "name": "alone"}, out=shop),
        lm.audit({**plan, "name": "apart"}, out=shop, executor="local:1"),
    ]
    live, alone, apart = (weights(result.folder) for result in results)
    assert [result.folder.name.split("-")[1] for result in results] == ["live", "alone", "apart"]
    assert results[0].cells[0].curve == results[1].cells[0].curve == results[2].cells[0].curve
    assert all(torch.equal(live[key], alone[key]) and torch.equal(live[key], apart[key]) for key in live)


def test_inputs_drawn_by_chance_are_no_honest_users(shop: Path) -> None:
    result = lm.audit({**PLAN, "seeds": [0], "detectors": ["prada"], "defenses": ["none", "rounding:1"]}, out=shop)
    notes = [cell.notes for cell in result.cells]
    assert all(note["detector"][0]["benign"] is None and "utility" not in note for note in notes)
    assert "honest test data" not in (result.folder / "report.md").read_text()


def test_a_victim_of_this_process_cannot_be_asked_in_another(shop: Path) -> None:
    victim = lm.load_victim("shop.py:Net", input_shape=(1, 8, 8), low=0.0, high=1.0)
    with pytest.raises(lm.UsageError, match="inline"):
        lm.audit(PLAN, victim=victim, out=shop, executor="local:2")


FLAGS = ["--input-shape", "1,8,8", "--low", "0", "--high", "1", "--budget", "60", "--display", "none"]


@pytest.mark.parametrize("net", ["Quitting", "Stopping"])
@pytest.mark.parametrize("executor", ["inline", "local:1"])
@pytest.mark.usefixtures("shop")
def test_a_victim_that_ends_the_process_never_looks_like_a_pass(monkeypatch, capsys, net: str, executor: str) -> None:
    where = ["--attack", "surrogate", "--view", "probs", "--seed", "0", "--seed", "1", "--executor", executor]
    assert left_with(monkeypatch, "audit", "--victim", f"shop.py:{net}", *FLAGS, *where) == 4
    assert "INCONCLUSIVE" in capsys.readouterr().out
    (results,) = Path().glob("runs/*/results.json")
    assert {cell["status"] for cell in json.loads(results.read_text())["cells"]} == {"failed"}


@pytest.mark.usefixtures("shop")
def test_a_victim_that_ends_the_process_while_it_is_opened_is_refused(monkeypatch, capsys) -> None:
    assert left_with(monkeypatch, "extract", "surrogate", "--victim", "shop.py:QuittingAtOnce", *FLAGS) == 2
    assert "SystemExit" in capsys.readouterr().err


@pytest.mark.usefixtures("shop")
def test_a_victim_that_ends_the_process_past_all_handlers_is_no_pass_either() -> None:
    command = [sys.executable, "-m", "leakmeter", "extract", "surrogate", "--victim", "shop.py:Vanishing", *FLAGS]
    left = subprocess.run(command, capture_output=True, text=True, check=False)
    assert left.returncode == 1
    assert "nothing was decided" in left.stderr


@pytest.mark.usefixtures("shop")
def test_whatever_ends_a_command_from_within_is_an_error(monkeypatch, capsys) -> None:
    """White-box work calls the network itself, with nothing around it."""
    quitting = ["--victim", "shop.py:Quitting", "--data", "digits", "--limit", "12"]
    assert left_with(monkeypatch, "certify", *quitting, "--n", "20") == 1
    assert "nothing was decided" in capsys.readouterr().err


def test_unbounded_inputs_stay_unbounded_on_their_way_to_a_worker(shop: Path) -> None:
    victim = {"source": "shop.py:Watching", "low": float("-inf"), "high": float("inf")}
    attack = {**PLAN["attacks"][0], "pool": "gaussian"}
    plan = {**PLAN, "victim": victim, "attacks": [attack], "data": {"name": "digits", "limit": 50}}
    result = lm.audit(plan, out=shop, executor="local:1")
    assert [cell.status for cell in result.cells] == ["done", "done"]
    assert (shop / "below").exists(), "the attack kept to [0, 1]"
    assert json.loads((result.folder / "results.json").read_text())["plan"]["victim"]["low"] == "-Infinity"
    again = lm.audit(plan, resume=result.folder)
    assert again.cells == result.cells


def test_a_copy_is_measured_class_by_class_and_classes_have_their_names(shop: Path) -> None:
    names = [f"kind {k}" for k in range(10)]
    plan = {**PLAN, "seeds": [0], "data": {"name": "digits"}, "victim": {**PLAN["victim"], "classes": names}}
    found = lm.audit(plan, out=shop)
    (cell,) = found.cells
    score = cell.final.score
    assert sum(each.n for each in cell.class_scores) == score.n
    assert sum(each.same for each in cell.class_scores) == round(score.fidelity * score.n)
    page = (found.folder / "report.html").read_text()
    most = max(range(10), key=lambda k: cell.class_scores[k].n)
    assert "Class by class" in page
    assert f"kind {most}" in page
