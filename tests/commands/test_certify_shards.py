"""Votes cast in blocks anywhere, in any order, by any number of workers: the counts of one process."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from leakmeter._audit.opening import load_test
from leakmeter.certificates.smoothing import Asked, certify
from leakmeter.commands.certify_shards import cast_votes, vote
from leakmeter.errors import Inconclusive
from leakmeter.executors.job import Batch, Desk, Job, Watch
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
        for job in list(jobs)[::-1][: self.only]:
            watch.started(job, "here")
            watch.ended(job, batch.work(batch.text, job.text, Desk(batch.folder, None)))
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
    common = json.dumps({"plan": PLAN.model_dump(mode="json"), "asked": ASKED})
    first = vote(common, "120", Desk(tmp_path, None))
    assert len(json.loads(first)) == 4  # the last block is short
    assert (tmp_path / "shards" / "120" / "counts").exists()
    assert vote(common, "120", Desk(tmp_path, None)) == first
