"""A log with known truth: who holds a copy is said, the same every time, and nothing is paid twice."""

import json
import shutil

import pytest

from leakmeter.errors import UsageError
from leakmeter.traffic.client import split
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.watch import copies
from leakmeter.watch.flow import watch

LINEAR = {"students": ("linear",), "effort": 0.05}


@pytest.fixture(scope="module")
def traffic(victim, natural, truth):
    users = honest_clients(victim, natural, 4, view="labels", queries=40)
    thieves = [thief(victim, "uniform", 400, view="labels", test=truth, **LINEAR)]
    return users, thieves


@pytest.fixture(scope="module")
def log(traffic, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "access.jsonl"
    users, thieves = traffic
    write_log(path, [*users, *split(thieves[0], 4)])
    return path


def numbers(result):
    return result.model_dump(exclude={"created", "folder", "reading"})


def test_sybils_are_found_as_one_and_a_second_night_pays_nothing(log, traffic, planned, tmp_path, monkeypatch):
    plan = planned({"max_fidelity": {"queries": 1000, "value": 0.75}}, honest=["user-0", "user-1"])
    first = watch(log, plan, out=tmp_path, progress=False)
    best = next(each for each in first.clients if each.by == "likeness")
    assert set(best.clients) == {f"uniform-0-{k}" for k in range(4)}
    assert best.queries == 400
    assert abs(best.fidelity - traffic[1][0].fidelity) < 0.03
    assert first.exit_code == 3
    control = next(each for each in first.false_alarms if each.what == "fidelity 75%")
    assert control.honest == 2
    assert control.flagged == sum(each.honest and each.alarm for each in first.clients)
    assert "honest clients reach that line too" in first.verdict.sentences[0]
    written = json.loads((first.folder / "results.json").read_text())
    assert [each["client"] for each in written["clients"]] == [each.client for each in first.clients]
    assert "<testcase" in (first.folder / "junit.xml").read_text()
    assert "mathdefault" not in (first.folder / "report.html").read_text()

    monkeypatch.setattr(copies, "copies_from", lambda *a, **k: pytest.fail("trained again"))
    second = watch(log, plan, out=tmp_path, progress=False)
    assert second.reading.new == 0
    assert second.reading.unchanged == 1
    assert numbers(second) == numbers(first)


def test_the_same_rows_in_another_order_and_form_give_the_same_numbers(log, planned, tmp_path):
    lines = log.read_text().splitlines()
    other = tmp_path / "logs"
    other.mkdir()
    (other / "b.jsonl").write_text("\n".join(reversed(lines[:500])) + "\n")
    (other / "a.jsonl.1").write_text("\n".join(lines[400:]) + "\n" + lines[0][:30])
    one = watch(log, planned(), out=tmp_path / "one", progress=False)
    two = watch(other, planned(), out=tmp_path / "two", progress=False)
    assert two.reading.repeated == 100
    assert two.reading.broken == 1
    assert numbers(one)["clients"] == numbers(two)["clients"]
    assert all(each.balance == round(each.balance, 6) for each in one.clients)  # whatever the order of adding


def test_a_rotated_log_keeps_what_was_read(log, planned, tmp_path):
    lines = log.read_text().splitlines(keepends=True)
    path = tmp_path / "access.jsonl"
    path.write_text("".join(lines[:-5]))
    watch(path, planned(train=1), out=tmp_path, progress=False)
    path.write_text("".join(lines[-5:]))
    after = watch(path, planned(train=1), out=tmp_path, progress=False)
    assert (after.reading.new, after.reading.rotated, after.reading.repeated) == (5, 1, 0)
    shutil.rmtree(tmp_path / "watch-state")
    whole = watch(log, planned(train=1), out=tmp_path, progress=False)
    assert numbers(whole)["clients"] == numbers(after)["clients"]


def test_a_state_of_another_model_is_refused(log, place, planned, tmp_path):
    plan = planned(train=1)
    watch(log, plan, out=tmp_path, progress=False)
    shutil.copy(place / "victim.py", tmp_path / "other.py")
    source = {"source": f"{tmp_path}/other.py:make"}
    other = plan.model_copy(update={"victim": plan.victim.model_copy(update=source)})
    with pytest.raises(UsageError, match="give another --state"):
        watch(log, other, out=tmp_path, progress=False)
