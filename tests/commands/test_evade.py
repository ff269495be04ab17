"""`leakmeter evade`: what stands in the run directory, and what it says of a mistake."""

import json
from pathlib import Path

import pytest
import safetensors.torch
from typer.testing import CliRunner, Result

from leakmeter.cli import app
from leakmeter.errors import UsageError

SHOP = """
import pathlib
import torch
from torch import nn
from leakmeter.data.catalogue import load

def net():  # the nearest mean of a class
    x, y = load("digits", "train").labelled()
    means = torch.stack([x[y == k].flatten(1).mean(0) for k in range(10)])
    layer = nn.Linear(64, 10)
    layer.load_state_dict({"weight": means, "bias": -means.square().sum(1) / 2})
    return nn.Sequential(nn.Flatten(), layer)

def function():
    network, book, mortal = net(), pathlib.Path("asked"), pathlib.Path("mortal")
    def answer(x):
        with book.open("a") as file:
            file.write("x" * len(x))
        if mortal.exists() and book.stat().st_size > 400:
            raise KeyboardInterrupt
        return network(torch.from_numpy(x)).argmax(1).detach().numpy()
    return answer
"""
LABELS = ["--victim", "shop.py:function", "--outputs", "labels", "--classes", "10"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evade(*arguments: object) -> Result:
    data = [] if "--resume" in arguments else ["--data", "digits", "--limit", "12"]
    return CliRunner().invoke(app, ["evade", *map(str, arguments), *data])


def evaded(*arguments: object) -> None:
    result = evade(*arguments)
    assert result.exit_code == 0, result.output


def test_gradients_of_a_module_end_in_examples_figures_and_a_picture(shop: Path) -> None:
    evaded("pgd", "--victim", "shop.py:net", "--norm", "linf", "--eps", "0.2", "-S", "steps=5")
    (run,) = (shop / "runs").iterdir()
    found = json.loads((run / "evasion.json").read_text())
    assert found["n"] == 12
    assert found["queries"] == 0
    assert 0 <= found["success_interval"]["low"] <= found["success"] <= found["success_interval"]["high"] <= 1
    assert safetensors.torch.load_file(run / "examples.safetensors")["examples"].shape == (12, 1, 8, 8)
    assert (run / "adversarial.png").read_bytes().startswith(b"\x89PNG")


def test_boundary_sees_labels_only_counts_them_and_stops_at_the_budget(shop: Path) -> None:
    evaded("boundary", *LABELS, "--budget", "700", "-S", "steps=100")
    (run,) = (shop / "runs").iterdir()
    found = json.loads((run / "evasion.json").read_text())
    assert 600 < found["queries"] <= 700
    assert found["success"] > 0


def test_a_stopped_attack_goes_on_to_the_same_examples_and_pays_no_answer_twice(shop: Path) -> None:
    asked, mortal = shop / "asked", shop / "mortal"
    ask = ["boundary", *LABELS, "--budget", "2000", "-S", "steps=60", "--out"]
    evaded(*ask, "whole")
    (whole,) = (shop / "whole").iterdir()
    price = json.loads((whole / "evasion.json").read_text())["queries"]
    once = asked.stat().st_size
    assert once > price > 500
    asked.unlink()
    mortal.touch()
    assert evade(*ask, "killed").exit_code != 0
    before = asked.stat().st_size
    mortal.unlink()
    (killed,) = (shop / "killed").iterdir()
    with pytest.raises(UsageError, match="no run of pgd"):
        raise evade("pgd", "--resume", killed).exception or AssertionError
    with pytest.raises(UsageError, match="--resume goes on with the settings of its run; leave out --eps"):
        raise evade("boundary", "--resume", killed, "--eps", "0.3").exception or AssertionError
    evaded("boundary", "--resume", killed)
    paid = json.loads((killed / "evasion.json").read_text())["queries"]
    assert paid == price
    assert 400 < before < once
    assert 0 < asked.stat().st_size - once <= 4 + 12, "opening the victim looks at 4 rows; one batch was never heard"
    assert (killed / "examples.safetensors").read_bytes() == (whole / "examples.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pgd", "--victim", "shop.py:function", "--outputs", "labels", "--classes", "10", "--eps", "1"], "nn.Module"),
        (["pgd", "--victim", "shop.py:net", "--eps", "0.1", "--budget", "9"], "leave out --budget"),
        (["boundary", "--victim", "http://127.0.0.1:1/v2/models/shop"], "pass --budget"),
        (["boundary", "--victim", "shop.py:net", "--copy", "copy.safetensors", "--budget", "9"], "leave out --budget"),
        (["boundry", "--victim", "shop.py:net"], "did you mean 'boundary'"),
        (["pgd", "--victim", "shop.py:net"], "pass eps"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_mistake_is_told_in_one_sentence(arguments: list[str], sentence: str) -> None:
    mistake = evade(*arguments).exception
    assert isinstance(mistake, UsageError)
    assert sentence in str(mistake)
