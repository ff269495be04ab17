"""Folders between machines: whole or not at all, and, packed at any moment, what a kill would have left."""

import threading
from pathlib import Path

import pytest
import torch

from leakmeter.errors import UsageError
from leakmeter.oracle.ledger import ATTACK
from leakmeter.oracle.replay import Replay
from leakmeter.runs import transport
from leakmeter.runs.run import Run, is_held
from leakmeter.runs.transport import ReplacedFolder, snapshot, undo_half_replaced


def send(source: Path, target: Path) -> int:
    folder_there, count = ReplacedFolder(target), 0
    for piece in snapshot(source):
        folder_there.add(piece)
        count += 1
    folder_there.finish()
    return count


def test_arrives_whole_and_in_pieces(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(transport, "_SIZE", 1000)
    run = Run.enter(tmp_path / "here", {"a": 1})
    ledger = run.ledger(100)
    (run.path / "answers").mkdir()
    (run.path / "answers" / "answers.bin").write_bytes(bytes(range(256)) * 10)
    (run.path / "empty").touch()
    (run.path / "lock").touch()
    ledger.reserve(ATTACK, [7])  # still open: part of it lies in the write-ahead log
    there = tmp_path / "deep" / "there"
    assert send(run.path, there) > 4
    ledger.close()
    assert Run.resume(there, {"a": 1}).ledger(100).spent() == 7
    assert (there / "answers" / "answers.bin").read_bytes() == bytes(range(256)) * 10
    assert (there / "empty").read_bytes() == b""
    assert not (there / "lock").exists()
    (run.path / "empty").write_text("more")
    (there / "gone").touch()
    send(run.path, there)
    assert (there / "empty").read_text() == "more"
    assert not (there / "gone").exists()
    assert [path.name for path in there.parent.iterdir()] == ["there"]


def test_packed_while_a_job_works_is_what_a_kill_would_have_left(tmp_path) -> None:
    run = Run.enter(tmp_path / "here", {})
    ledger, log, stop = run.ledger(None), run.answers(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            (ask,) = ledger.reserve(ATTACK, [1])
            log.append(ask, bytes(16), {"probs": torch.rand(1, 10)})
            if ask % 20 == 0:
                run.checkpoint("state").save({"position": ask})

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for i in range(8):
            there = tmp_path / f"there{i}"
            if not send(run.path, there):
                continue
            copy = Run.open(there)
            copied, answers = copy.ledger(None), copy.answers()
            Replay(copied, answers, remote=False)  # refuses answers that were never counted
            state = copy.checkpoint("state").load()
            records = [record.ask for record in answers.answers()]
            assert state is None or state["position"] in records
            assert len(records) <= copied.spent()
            copied.close()
            answers.close()
    finally:
        stop.set()
        worker.join()
        ledger.close()
        log.close()


def test_a_driver_killed_between_two_folders_finds_the_old_one(tmp_path) -> None:
    folder = tmp_path / "cell"
    folder.mkdir()
    (folder / "paid").touch()
    folder_there = ReplacedFolder(folder)
    folder_there.add(("new", b"x"))
    folder.rename(folder_there._old)  # and killed
    undo_half_replaced(folder)
    assert (folder / "paid").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["cell"]


def test_what_is_sent_cannot_leave_its_folder(tmp_path) -> None:
    with pytest.raises(ValueError, match="must stay in its folder"):
        ReplacedFolder(tmp_path / "cell").add(("../../elsewhere", b""))


def test_a_folder_is_waited_for_and_known_to_be_held(tmp_path) -> None:
    run = Run.enter(tmp_path / "run", {})
    assert not is_held(run.path)
    assert not is_held(tmp_path / "nowhere")
    with run.held():
        assert is_held(run.path)
        with pytest.raises(UsageError, match="another process is working"), run.held(patience=0.3):
            pass
        letting_go = threading.Event()
    holder = run.held()
    holder.__enter__()
    threading.Timer(0.5, lambda: holder.__exit__(None, None, None)).start()
    with run.held(patience=60):
        letting_go.set()
    assert letting_go.is_set()
