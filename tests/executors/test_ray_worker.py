"""What a worker does, without a cluster: in the driver's folder where it sees it, else in its own, sending it all."""

from pathlib import Path

import pytest

from leakmeter.errors import VictimError
from leakmeter.executors.job import Batch, Job
from leakmeter.runs.run import Run
from leakmeter.runs.transport import ReplacedFolder

pytest.importorskip("ray")
from leakmeter.executors import ray_worker
from leakmeter.executors.ray_worker import Ended, FolderSent, Started, run_job


class Counting:
    """Goes on from what lies in its folder; `text` tells how it ends."""

    def __init__(self, limits) -> None:
        pass

    def run(self, text: str, folder: Path) -> str:
        own = folder / "jobs" / "one"
        own.mkdir(parents=True, exist_ok=True)
        paid = own / "paid"
        paid.write_text((paid.read_text() if paid.exists() else "") + "x")
        if text == "fail":
            raise ValueError("no luck")
        if text == "quit":
            raise SystemExit(0)
        return f"{(folder / 'needed').read_text()} {paid.read_text()}"


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    run = Run.enter(tmp_path / "run", {})
    (run.path / "needed").write_text("data")
    return Batch(Counting, run.path, needs=("needed",))


def messages(batch: Batch, text: str = "", left=()) -> list:
    return list(run_job(batch, Job("jobs/one", text), None, [("needed", b"data")], left))


def test_works_in_the_folder_it_shares(batch: Batch) -> None:
    with Run.open(batch.folder).held():
        started, ended = messages(batch)
    assert isinstance(started, Started)
    assert ended == Ended("data x")
    assert (batch.folder / "jobs" / "one" / "paid").read_text() == "x"


def test_sends_the_folder_it_does_not_share(batch: Batch) -> None:
    _, piece, whole, ended = messages(batch, left=[("paid", b"xx")])
    assert (piece, whole, ended) == (("paid", b"xxx"), FolderSent(), Ended("data xxx"))
    assert not (batch.folder / "jobs").exists()


def test_sends_what_a_failing_job_paid_for(batch: Batch) -> None:
    told = run_job(batch, Job("jobs/one", "fail"), None, [("needed", b"data")], [])
    heard = [next(told) for _ in range(3)]
    assert heard[1:] == [("paid", b"x"), FolderSent()]
    with pytest.raises(ValueError, match="no luck"):
        next(told)


def test_a_job_that_ends_its_process_has_only_failed(batch: Batch) -> None:
    with Run.open(batch.folder).held(), pytest.raises(VictimError, match="ended from within by SystemExit"):
        messages(batch, "quit")


class Slow:
    def __init__(self, limits) -> None:
        pass

    def run(self, text: str, folder: Path) -> str:
        import time

        own = folder / "jobs" / "one"
        own.mkdir(parents=True)
        for i in range(4):
            (own / "state").write_text(str(i))
            time.sleep(0.3)
        return "done"


def test_sends_snapshots_while_it_works(batch: Batch, monkeypatch) -> None:
    monkeypatch.setattr(ray_worker, "SECONDS_BETWEEN_SNAPSHOTS", 0.2)
    states, back = [], None
    for message in run_job(Batch(Slow, batch.folder), Job("jobs/one", ""), None, [], []):
        if isinstance(message, tuple):
            back = back or ReplacedFolder(batch.folder / "back")
            back.add(message)
        elif isinstance(message, FolderSent):
            back.finish()
            back = None
            states.append(int((batch.folder / "back" / "state").read_text()))
    assert len(states) > 1
    assert states == sorted(states)
    assert states[-1] == 3
