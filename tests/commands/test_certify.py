"""Votes cast in blocks anywhere, in any order, by any number of workers: the counts of one process."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from leakmeter._audit.opening import load_test
from leakmeter.certificates.smoothing import Asked, certify
from leakmeter.cli import app
from leakmeter.commands.certify_votes import cast_votes, open_voter
from leakmeter.errors import Inconclusive, UsageError
from leakmeter.executors.job import Batch, Job, Watch
from leakmeter.plan import make_plan

ASKED = {"sigma": 0.4, "n": 130, "seed": 3}  # chunks that do not fill a batch
SEQUENTIAL = {**ASKED, "n": 400, "target_radius": 0.1}
PLAN = make_plan({"victim": {"source": "net.py:Net"}, "data": {"name": "digits", "limit": 124}})
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.net(x)
"""


class Backwards:
    """Runs jobs here, last first, each as a worker would; gives up after some."""

    def __init__(self, only: int | None = None) -> None:
        self.only, self.ran = only, 0

    def run(self, batch: Batch, jobs, watch: Watch) -> None:
        worker = batch.make_worker(None)
        for job in list(jobs)[::-1][: self.only]:
            watch.started(job, "here")
            watch.ended(job, worker.run(job.text, batch.folder))
            self.ran += 1
        if self.only is not None:
            watch.failed(Job("shards/0", ""), "its worker died")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    from leakmeter._audit.opening import open_victim

    return open_victim(PLAN, load_test(PLAN)).white_box


@pytest.mark.parametrize("asked", [ASKED, SEQUENTIAL])
def test_counts_do_not_depend_on_the_sharding(tmp_path: Path, model: nn.Module, asked) -> None:
    x = load_test(PLAN).x
    whole = certify(model, x, **asked)
    cast_votes(PLAN, asked, model, x, tmp_path / "counts", Backwards())
    sharded = certify(model, x, **asked, path=tmp_path / "counts")
    assert torch.equal(whole.counts, sharded.counts)
    assert torch.equal(whole.selection, sharded.selection)
    assert torch.equal(whole.radii, sharded.radii)
    assert not (tmp_path / "shards").exists()


def test_a_resumed_certification_votes_on_the_rest_only(tmp_path: Path, model: nn.Module) -> None:
    x = load_test(PLAN).x
    blocks = -(-len(x) // Asked(**ASKED).sampling().block)
    with pytest.raises(Inconclusive, match=r"1 of 13 blocks have no votes; the first, shards/0: its worker died"):
        cast_votes(PLAN, ASKED, model, x, tmp_path / "counts", Backwards(only=5))
    rest = Backwards()
    cast_votes(PLAN, ASKED, model, x, tmp_path / "counts", rest)
    assert rest.ran == blocks - 5 == 8
    cast_votes(PLAN, ASKED, model, x, tmp_path / "counts", Backwards(only=0))  # nothing to do, so nobody fails
    assert torch.equal(certify(model, x, **ASKED, path=tmp_path / "counts").counts, certify(model, x, **ASKED).counts)


def test_a_block_keeps_what_it_has(tmp_path: Path, model: nn.Module) -> None:
    voter = open_voter(PLAN, Asked(**ASKED))
    first = voter.run("120", tmp_path)
    assert len(json.loads(first)) == 4  # the last block is short
    assert (tmp_path / "shards" / "120" / "counts").exists()
    assert voter.run("120", tmp_path) == first


@pytest.mark.usefixtures("model")
def test_a_resumed_certification_takes_no_other_settings(tmp_path: Path) -> None:
    flags = ["--victim", "net.py:Net", "--data", "digits", "--limit", "12", "--n", "50"]
    whole = CliRunner().invoke(app, ["certify", *flags])
    assert whole.exit_code == 0, whole.output
    (run,) = (tmp_path / "runs").iterdir()
    again = CliRunner().invoke(
        app, ["certify", "--resume", str(run.relative_to(tmp_path)), "--executor", "inline", "--display", "none"]
    )
    assert again.output == whole.output
    mistake = CliRunner().invoke(app, ["certify", "--resume", str(run), "--sigma", "0.9"]).exception
    assert isinstance(mistake, UsageError)
    assert "leave out --sigma" in str(mistake)


@pytest.mark.usefixtures("model")
def test_a_certification_of_nothing_is_told_what_it_lacks() -> None:
    mistake = CliRunner().invoke(app, ["certify"]).exception
    assert isinstance(mistake, UsageError)
    assert "lacks 'victim'" in str(mistake)
