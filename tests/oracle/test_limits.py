"""Shared limits: whatever workers do and whenever they die, together they never exceed them."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from leakmeter.errors import BudgetExhausted, UsageError
from leakmeter.oracle.ledger import ATTACK, EVALUATION, Ledger
from leakmeter.oracle.limits import Attempt, LimitsFile, Superseded
from leakmeter.runs.run import Run

TOTAL = 500


class Workers(RuleBasedStateMachine):
    """Some live, some dead, some that were given up but still ask; the model counts what each was allowed to send."""

    jobs = st.sampled_from(["a", "b", "c"])

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "leases"
        self.leases = LimitsFile(self.path, total=TOTAL)
        self.latest: dict[str, Attempt] = {}
        self.stale: list[Attempt] = []
        self.sent: dict[tuple[str, str], int] = {}

    @rule(job=jobs)
    def begin(self, job: str) -> None:
        if job in self.latest:
            self.stale.append(self.latest[job])
        self.latest[job] = Attempt(self.leases, job)

    @rule(job=jobs, account=st.sampled_from([ATTACK, EVALUATION]), rows=st.integers(1, 200))
    def take(self, job: str, account: str, rows: int) -> None:
        if job not in self.latest:
            return
        left = TOTAL - sum(self.sent.values())
        if rows > left:
            with pytest.raises(BudgetExhausted) as refused:
                self.latest[job].take(account, rows)
            assert refused.value.remaining == left
        else:
            self.latest[job].take(account, rows)
            self.sent[job, account] = self.sent.get((job, account), 0) + rows

    @rule(rows=st.integers(1, 200))
    def a_worker_that_was_given_up_asks(self, rows: int) -> None:
        for lease in self.stale:
            with pytest.raises(Superseded):
                lease.take(ATTACK, rows)

    @rule()
    def the_keeper_dies(self) -> None:
        self.leases.close()
        self.leases = LimitsFile.join(self.path)
        for lease in [*self.latest.values(), *self.stale]:
            lease._limits = self.leases

    @rule()
    def the_driver_dies_and_resumes(self) -> None:
        self.leases.close()
        self.leases = LimitsFile(self.path, total=TOTAL)
        for lease in [*self.latest.values(), *self.stale]:
            lease._limits = self.leases

    @invariant()
    def everything_sent_is_counted(self) -> None:
        assert sum(self.sent.values()) <= TOTAL
        for job in ("a", "b", "c"):
            expected = {account: n for (name, account), n in self.sent.items() if name == job}
            assert self.leases.taken(job) == expected

    def teardown(self) -> None:
        self.leases.close()
        self.folder.cleanup()


def test_no_order_of_events_exceeds_the_total_or_forgets_a_row() -> None:
    from hypothesis import settings

    run_state_machine_as_test(Workers, settings=settings(max_examples=25, stateful_step_count=20))


@given(
    rps=st.floats(0.5, 50),
    events=st.lists(st.tuples(st.sampled_from(["ask", "wait", "hold"]), st.floats(0, 2)), min_size=5, max_size=40),
)
def test_slots_keep_their_distance_and_pauses_are_kept(tmp_path_factory, rps, events) -> None:
    now = 100.0
    leases = LimitsFile(tmp_path_factory.mktemp("pace") / "leases", rps=rps, clock=lambda: now)
    given_out, held = [], 0.0
    for kind, seconds in events:
        if kind == "ask":
            slot = leases.slot()
            given_out.append((now + slot.delay, slot))
        elif kind == "wait":
            now += seconds
        else:
            # Slots before now were used; the rest must be handed in.
            given_out = [(at, slot) for at, slot in given_out if at <= now]
            leases.hold(seconds)
            held = max(held, now + seconds)
        standing = [at for at, slot in given_out if at <= now or leases.stands(slot)]
        assert all(later - earlier >= 1 / rps - 1e-9 for earlier, later in itertools.pairwise(standing))
        if kind == "ask":
            assert given_out[-1][0] >= held - 1e-9
    leases.close()


def test_a_slot_given_before_a_pause_stands_no_more(tmp_path) -> None:
    leases = LimitsFile(tmp_path / "leases", rps=10)
    slot = leases.slot()
    assert leases.stands(slot)
    leases.hold(5)
    assert not leases.stands(slot)
    assert leases.slot().delay > 4.5
    leases.close()


PROCESS = """
import sys
from pathlib import Path
from leakmeter.errors import BudgetExhausted
from leakmeter.oracle.limits import Attempt, LimitsFile
leases = LimitsFile.join(Path(sys.argv[1]))
lease, got = Attempt(leases, sys.argv[2]), 0
try:
    while True:
        lease.take("attack", 7)
        got += 7
except BudgetExhausted:
    print(got)
leases.close()
"""


def test_processes_share_one_total(tmp_path) -> None:
    path = tmp_path / "leases"
    LimitsFile(path, total=2000).close()
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(path), f"job{i}"], stdout=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    got = [int(process.communicate(timeout=300)[0]) for process in processes]
    assert sum(got) == 2000 // 7 * 7


def test_what_a_dead_worker_took_is_in_the_ledger_of_the_next(tmp_path) -> None:
    leases = LimitsFile(tmp_path / "leases")
    first = Attempt(leases, "cell")
    run = Run.enter(tmp_path / "run", {})
    ledger = run.ledger(100, first)
    ledger.reserve(ATTACK, [30])
    ledger.close()
    first.take(ATTACK, 20)  # and died before the ledger knew, or with a ledger that never came back
    ledger = run.ledger(100, Attempt(leases, "cell"))
    assert (ledger.spent(), ledger.entry(ATTACK).unconfirmed, ledger.remaining) == (50, 20, 50)
    ledger.reserve(ATTACK, [50])
    assert leases.taken("cell") == {ATTACK: 100}
    ledger.close()
    leases.close()


def test_a_question_that_the_others_used_up_is_not_entered(tmp_path) -> None:
    leases = LimitsFile(tmp_path / "leases", total=10)
    ledger = Ledger(budget=100, take=Attempt(leases, "cell").take)
    Attempt(leases, "other").take(EVALUATION, 6)
    with pytest.raises(BudgetExhausted) as refused:
        ledger.reserve(ATTACK, [5])
    assert (refused.value.remaining, ledger.spent()) == (4, 0)
    ledger.close()
    leases.close()


def test_leases_that_nobody_set_cannot_be_joined(tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no file of shared limits"):
        LimitsFile.join(tmp_path / "leases")
