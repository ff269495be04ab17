"""Plans, flags and values at their ends: one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from mutations import mutated
from typer.testing import CliRunner

import leakmeter as lm
from leakmeter import cli
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.plan import make_plan, read_plan
from leakmeter.runs.run import Run
from leakmeter.victims.remote.pace import retry_after

VICTIM = {"source": "net.py:Net", "low": 0.0, "high": 1.0}
DEEP = "[" * 5000 + "]" * 5000
PLAN = """
views = ["labels"]
budget = 40
seeds = [0, 1]
[victim]
source = "net.py:Net"
low = 0.0
[[attacks]]
name = "surrogate"
recipe = { steps = 5, milestones = [0.3] }
[policy.max_fidelity]
queries = 10
value = 0.5
"""


@pytest.mark.parametrize(
    "change",
    [
        {"total": 10**23},
        {"budget": 10**30},
        {"seeds": [10**40]},
        {"threads": 3e9},
        {"threads": 10**9},
        {"stops": [10**25]},
        {"patience": float("inf")},
        {"patience": float("nan")},
        {"attacks": [{"name": "surrogate", "recipe": {"steps": 5, "milestones": [float("inf")]}}]},
        {"attacks": [{"name": "dfme", "milestones": [float("nan")]}]},
        {"attacks": [{"name": "surrogate", "recipe": {"steps": 5, "lr": float("inf")}}]},
        {"prices": {"query": float("nan")}},
    ],
)
def test_values_at_their_ends_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        make_plan({"victim": VICTIM, "attacks": [{"name": "surrogate"}], **change})


def test_a_device_that_is_none_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="the device 'banana' cannot be used here"):
        lm.audit({"victim": VICTIM, "device": "banana"})
    with pytest.raises(UsageError, match="the device 'banana' cannot be used here"):
        lm.load_victim("net.py:Net", device="banana")


def test_documents_nested_without_end_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(f"a = {DEEP}")
    with pytest.raises(UsageError, match="is not TOML"):
        read_plan(tmp_path / "plan.toml")
    with pytest.raises(UsageError, match="cannot read the plan"):
        Run.open(tmp_path)
    (tmp_path / "api.toml").write_text(f"request = {DEEP}")
    with pytest.raises(UsageError, match="cannot read the description"):
        lm.load_victim(str(tmp_path / "api.toml"))


@pytest.mark.parametrize(
    "flags", [["-S", "a=1", "-S", "a.b=2"], ["-S", "a.b=2", "-S", "a=1"], ["-S", f"a={DEEP}"], ["-S", "a=\nb=2"]]
)
def test_settings_that_contradict_each_other_are_sentences(flags: list[str]) -> None:
    ended = CliRunner().invoke(cli.app, ["extract", "surrogate", "--victim", "net.py:Net", *flags])
    assert isinstance(ended.exception, UsageError)


@pytest.mark.parametrize("year", ["99999999999999999999", "-1", "10000"])
def test_any_retry_after_is_seconds_or_nothing(year: str) -> None:
    assert retry_after(f"Wed, 21 Oct {year} 07:28:00 GMT") is None
    assert retry_after("9" * 400) == float("inf")


def test_a_fault_nobody_thought_of_is_a_sentence_too(monkeypatch, capsys) -> None:
    def fail() -> None:
        raise RuntimeError("bang \x1b[31m")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "internal error: RuntimeError: bang" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_changed_plans_are_read_or_refused_in_a_sentence(tmp_path: Path, times: int) -> None:
    chance, path = random.Random(4), tmp_path / "plan.toml"
    make_plan(_read(path, PLAN.encode()))
    for _ in range(times):
        with suppress(LeakmeterError):
            make_plan(_read(path, mutated(PLAN.encode(), chance)))


def _read(path: Path, raw: bytes) -> dict[str, object]:
    path.write_bytes(raw)
    return read_plan(path)
