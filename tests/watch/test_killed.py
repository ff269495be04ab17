"""A kill in the middle of a file loses nothing that was kept and repeats nothing."""

import json
import os
import signal

import torch

from leakmeter.box import Box
from leakmeter.extraction.given import copies_from
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.log import write_log
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch import copies
from leakmeter.watch.flow import watch
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.state import State

SPEC = VictimSpec("m", (1,), Box(torch.tensor(0.0), torch.tensor(1.0)), 2, "labels")


def rows(client, count):
    return "".join(
        json.dumps({"client": client, "time": k, "input": [k / count], "answer": k % 2}) + "\n" for k in range(count)
    )


def test_a_kill_in_the_middle_of_a_file(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(rows("a", 30))
    second.write_text(rows("b", 20))
    files, log = [("a.jsonl", first), ("b.jsonl", second)], LogSettings()
    child = os.fork()
    if child == 0:
        state = State(tmp_path / "state", threads=1)
        state.keep("copy/1", {"fidelity": 0.5})
        state.read(files[:1], log, SPEC)
        state._insert_new = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        state.read(files, log, SPEC)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    state = State(tmp_path / "state", threads=1)
    assert state.connection.execute("SELECT client, count(*) FROM queries GROUP BY client").fetchall() == [("a", 30)]
    assert state.kept("copy/1") == {"fidelity": 0.5}
    reading = state.read(files, log, SPEC)
    assert (reading.new, reading.unchanged, reading.repeated, reading.lines) == (20, 1, 0, 50)
    state.close()


def test_a_kill_between_two_copies_repeats_none_and_changes_no_number(victim, natural, planned, tmp_path, monkeypatch):
    log, made = tmp_path / "access.jsonl", []
    write_log(log, honest_clients(victim, natural, 5, view="labels", queries=80))

    def counted(*given, **options):
        made.append(1)
        return copies_from(*given, **options)

    monkeypatch.setattr(copies, "copies_from", counted)
    whole = watch(log, planned(), out=tmp_path / "whole", progress=False)
    needed = len(made)
    assert needed > 3
    made.clear()
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(
            copies,
            "copies_from",
            lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL) if len(made) == 2 else counted(*a, **k),
        )
        watch(log, planned(), out=tmp_path / "cut", progress=False)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    after = watch(log, planned(), out=tmp_path / "cut", progress=False)
    assert len(made) == needed - 2  # those the child had made and kept are not made again
    assert after.reading.new == 0
    shown = {"clients", "false_alarms", "verdict", "seen"}
    assert after.model_dump(include=shown) == whole.model_dump(include=shown)
