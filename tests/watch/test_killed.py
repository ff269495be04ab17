"""A kill in the middle of a file loses nothing that was kept and repeats nothing."""

import json
import os
import signal

import torch

from leakmeter.box import Box
from leakmeter.victims.spec import VictimSpec
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
