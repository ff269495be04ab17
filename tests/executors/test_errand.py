"""What a worker does, without a cluster: in the driver's folder where it sees it, else in its own, sending it all."""

from pathlib import Path

import pytest

from leakmeter.executors import errand
from leakmeter.executors.errand import Ended, Started, Whole, run_errand
from leakmeter.executors.job import Batch, Desk, Job
from leakmeter.runs.parcel import Arrival
from leakmeter.runs.run import Run


def count(common: str, text: str, desk: Desk) -> str:
    """Goes on from what lies in its folder; `text` tells how it ends."""
    own = desk.folder / "jobs" / "one"
    own.mkdir(parents=True, exist_ok=True)
    paid = own / "paid"
    paid.write_text((paid.read_text() if paid.exists() else "") + "x")
    if text == "fail":
        raise ValueError("no luck")
    return f"{common} {(desk.folder / 'needed').read_text()} {paid.read_text()}"


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    run = Run.enter(tmp_path / "run", {})
    (run.path / "needed").write_text("data")
    return Batch(count, "all", run.path, needs=("needed",))


def words(batch: Batch, text: str = "", left=()) -> list:
    return list(run_errand(batch, Job("jobs/one", text), None, [("needed", b"data")], left))


def test_works_in_the_folder_it_shares(batch: Batch) -> None:
    with Run.open(batch.folder).held():
        started, ended = words(batch)
    assert isinstance(started, Started)
    assert ended == Ended("all data x")
    assert (batch.folder / "jobs" / "one" / "paid").read_text() == "x"


def test_sends_the_folder_it_does_not_share(batch: Batch) -> None:
    _, piece, whole, ended = words(batch, left=[("paid", b"xx")])
    assert (piece, whole, ended) == (("paid", b"xxx"), Whole(), Ended("all data xxx"))
    assert not (batch.folder / "jobs").exists()


def test_sends_what_a_failing_job_paid_for(batch: Batch) -> None:
    told = run_errand(batch, Job("jobs/one", "fail"), None, [("needed", b"data")], [])
    heard = [next(told) for _ in range(3)]
    assert heard[1:] == [("paid", b"x"), Whole()]
    with pytest.raises(ValueError, match="no luck"):
        next(told)


def slowly(common: str, text: str, desk: Desk) -> str:
    import time

    own = desk.folder / "jobs" / "one"
    own.mkdir(parents=True)
    for i in range(4):
        (own / "state").write_text(str(i))
        time.sleep(0.3)
    return "done"


def test_sends_parcels_while_it_works(batch: Batch, monkeypatch) -> None:
    monkeypatch.setattr(errand, "SECONDS_BETWEEN_PARCELS", 0.2)
    states, arrival = [], None
    for word in run_errand(Batch(slowly, "", batch.folder), Job("jobs/one", ""), None, [], []):
        if isinstance(word, tuple):
            arrival = arrival or Arrival(batch.folder / "back")
            arrival.add(word)
        elif isinstance(word, Whole):
            arrival.finish()
            arrival = None
            states.append(int((batch.folder / "back" / "state").read_text()))
    assert len(states) > 1
    assert states == sorted(states)
    assert states[-1] == 3
