"""Jobs on a small cluster of this machine; `test_cluster.py` kills parts of a larger one."""

import os
import signal
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from leakmeter.errors import BudgetExhausted, UsageError
from leakmeter.executors.job import Batch, Job
from leakmeter.oracle.limits import Attempt, LimitsFile, Superseded
from leakmeter.progress import SILENT
from leakmeter.runs.run import Run

pytest.importorskip("ray")


class Obedient:
    """Does as it is told; counts in its folder how often it was begun."""

    def __init__(self, seen: Path, limits) -> None:
        self.seen = seen  # a folder that all workers see

    def run(self, text: str, folder: Path) -> str:
        own = folder / "jobs" / text
        own.mkdir(parents=True, exist_ok=True)
        begun = len(list(own.glob("begun*")))
        (own / f"begun{begun}").touch()
        if text == "fail":
            raise ValueError("no luck")
        if text == "usage":
            raise UsageError("there is no such model; give another")
        if text == "quit":
            sys.exit(0)
        died = self.seen / text
        if text == "die" or (text == "die-once" and not died.exists()):
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{text} begun {begun + 1}, {(folder / 'needed').read_text()}"


class Notes:
    """Keeps everything it is told."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.interruptions: list[str] = []
        self.running, self.most = 0, 0

    def started(self, job: Job, where: str) -> None:
        self.running += 1
        self.most = max(self.most, self.running)

    def interrupted(self, job: Job, why: str) -> None:
        self.running -= 1
        self.interruptions.append(job.text)

    def ended(self, job: Job, text: str) -> None:
        self.running -= 1
        self.results[job.text] = text

    def failed(self, job: Job, why: str) -> None:
        self.running -= 1
        self.failures[job.text] = why


@pytest.fixture
def run(tmp_path: Path, cluster) -> Run:
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    run = Run.enter(tmp_path / "run", {})
    (run.path / "needed").write_text("data")
    return run


def execute(run: Run, texts, **batch) -> Notes:
    from leakmeter.executors.ray import RayExecutor

    notes = Notes()
    jobs = (Job(f"jobs/{text}", text) for text in texts)
    RayExecutor().run(Batch(partial(Obedient, run.path.parent), run.path, needs=("needed",), **batch), jobs, notes)
    return notes


def test_every_job_comes_back_done_or_with_why_not(run: Run, monkeypatch) -> None:
    monkeypatch.setattr("leakmeter.executors.ray.TRIES", 2)
    texts = ["a", "die-once", "fail", "quit", "die", *map(str, range(8))]
    with run.held():
        notes = execute(run, texts, at_once=3)
    assert notes.most <= 3
    assert notes.failures.keys() == {"fail", "quit", "die"}
    assert "SystemExit" in notes.failures["quit"]
    assert notes.failures["fail"] == "ValueError: no luck"
    assert "its worker died" in notes.failures["die"]
    assert "2 times" in notes.failures["die"]
    assert notes.results.pop("die-once") == "die-once begun 2, data"
    assert notes.results == {text: f"{text} begun 1, data" for text in ["a", *map(str, range(8))]}


def test_folders_come_back_from_where_they_are_not_shared(run: Run) -> None:
    notes = execute(run, ["a", "die-once", "fail"])  # a folder that nobody holds is not the one the driver sees
    assert (notes.failures, notes.interruptions) == ({"fail": "ValueError: no luck"}, ["die-once"])
    # What a dead worker did since its last snapshot, here all, is lost.
    assert notes.results == {text: f"{text} begun 1, data" for text in ("a", "die-once")}
    for text in "a", "die-once", "fail":
        assert (run.path / "jobs" / text / "begun0").exists()


def test_goes_on_from_what_an_earlier_driver_got_back(run: Run) -> None:
    execute(run, ["a"])
    assert execute(run, ["a"]).results == {"a": "a begun 2, data"}


def test_what_the_caller_can_mend_ends_the_run(run: Run) -> None:
    with run.held(), pytest.raises(UsageError, match="no such model"):
        execute(run, ["a", "usage"])


def test_jobs_are_taken_as_there_is_room(run: Run) -> None:
    taken = count()

    def texts():
        for _ in range(60):
            yield f"t{next(taken)}"

    class Impatient(Notes):
        def ended(self, job: Job, text: str) -> None:
            super().ended(job, text)
            self.ahead = max(getattr(self, "ahead", 0), next(taken) - len(self.results) * 2)

    from leakmeter.executors.ray import RayExecutor

    notes = Impatient()
    with run.held():
        jobs = (Job(f"jobs/{text}", text) for text in texts())
        RayExecutor().run(Batch(partial(Obedient, run.path.parent), run.path), jobs, notes)
    assert len(notes.results) == 60
    assert notes.ahead <= 8


def test_a_job_too_large_for_every_machine_is_refused(run: Run) -> None:
    with run.held(), pytest.raises(UsageError, match="a machine in the cluster with 64 CPUs and 0 GPUs"):
        execute(run, ["a"], cpus=64)


def test_leases_over_the_cluster(run: Run) -> None:
    from leakmeter.executors.ray_worker import share_limits

    LimitsFile(run.path / "leases", total=100, rps=50).close()
    limits = share_limits(run.path / "leases")
    old, new = Attempt(limits, "cell"), Attempt(limits, "cell")
    new.take("attack", 60)
    with pytest.raises(BudgetExhausted) as refused:
        new.take("attack", 50)
    assert refused.value.remaining == 40
    with pytest.raises(Superseded):
        old.take("attack", 1)
    assert new.taken() == {"attack": 60}
    limits.hold(5)
    slot = limits.slot()
    assert slot.delay > 3
    assert limits.stands(slot)


def test_certify_on_ray_counts_what_one_process_counts(shop: Path, cluster) -> None:
    from leakmeter.commands.certify import certify_in

    plan = {"victim": {"source": "net.py:Net"}, "data": {"name": "digits", "limit": 25}}
    content = {"plan": plan, "asked": {"sigma": 0.5, "n": 100}}
    assert certify_in(shop / "here", content, None, SILENT) == certify_in(shop / "there", content, "ray", SILENT)
    assert (shop / "here" / "counts").read_bytes() == (shop / "there" / "counts").read_bytes()


def test_without_the_package_one_sentence_says_how_to_get_it(monkeypatch) -> None:
    from leakmeter.executors import make_executor

    monkeypatch.delitem(sys.modules, "leakmeter.executors.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'leakmeter\[ray\]'"):
        make_executor("ray")
