"""The command line: what a log says stays text, and a wrong one is a sentence."""

import json

import torch
from typer.testing import CliRunner

from leakmeter.cli import app

NAME = "<script>x</script>=1+1|'\x1b[31m\u202e`a`\nPASS: nobody holds a copy"


def run(place, log, out, *more):
    flags = ["--victim", f"{place}/victim.py:make", "--data", f"{place}/test.npz", "--input-shape", "4", "--low=-1"]
    flags += ["--high", "1", "--classes", "3", "--outputs", "logits", "--out", str(out), "--display", "none"]
    settings = ['students=["linear"]', "effort=0.05", "least=20", "train=3", "detectors=[]"]
    return CliRunner().invoke(app, ["watch", str(log), *flags, *(f"--set={each}" for each in settings), *more])


def test_a_hostile_name_is_shown_as_text(place, tmp_path):
    x = torch.rand(60, 4, generator=torch.Generator().manual_seed(3)) * 2 - 1
    rows = [{"client": NAME, "time": k, "input": row, "answer": k % 3} for k, row in enumerate(x.tolist())]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + json.dumps(rows[0] | {"input": "../../etc.npy"}))
    result = run(place, log, tmp_path / "runs")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert not any(line.startswith("PASS") for line in result.output.splitlines())
    (folder,) = (tmp_path / "runs").glob("*-watch")
    for name in ("report.html", "report.md", "junit.xml", "results.json"):
        text = (folder / name).read_text()
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert name in ("results.json",) or "<script>x" not in text
    found = json.loads((folder / "results.json").read_text())
    assert found["clients"][0]["client"].startswith("<script>x</script>=1+1|'")
    assert found["clients"][0]["lost"] == 1


def test_mistakes_are_one_sentence(place, tmp_path):
    sentences = {
        "there is no log": run(place, tmp_path / "none.csv", tmp_path),
        "has no key 'clients'": run(place, tmp_path / "none.csv", tmp_path, "--set=clients=3"),
        "give table in [log]": run(place, tmp_path / "log.db", tmp_path),
        "expected 4 columns in [log]": run(place, tmp_path / "none.csv", tmp_path, '--set=columns=["a"]'),
    }
    for sentence, result in sentences.items():
        assert sentence in str(result.exception), result.output
        assert "\n" not in str(result.exception)


def test_an_empty_log_is_no_pass(place, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("")
    plan = tmp_path / "plan.toml"
    plan.write_text("[policy]\nmax_fidelity = {queries = 100, value = 0.9}\n")
    result = run(place, log, tmp_path / "runs", "--plan", str(plan))
    assert result.exit_code == 4, result.output
    assert "nothing was looked at" in result.output
