"""What a detector is shown: every row the attack asked, once, whatever was killed in between."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from leakmeter.detectors import detection as module
from leakmeter.detectors.detection import Recorder, detect
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Question, Victim


class Witness:
    """A detector that remembers all it is shown."""

    queries = 0
    fired_at = None

    def __init__(self) -> None:
        self.x: list[Tensor] = []
        self.labels: list[Tensor] = []

    def observe(self, x: Tensor, labels: Tensor) -> None:
        self.x.append(x)
        self.labels.append(labels)


@pytest.fixture
def victim() -> Victim:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Linear(30, 4)
    victim = load_victim(net, input_shape=(30,), low=0.0, high=1.0)
    victim.batch = 8
    return victim


def seen(recorder: Recorder) -> tuple[Tensor, Tensor]:
    witness = Witness()
    recorder.replay(witness)
    return torch.cat(witness.x), torch.cat(witness.labels)


def test_a_resumed_run_shows_the_same_as_one_that_was_not_killed(victim: Victim, tmp_path: Path) -> None:
    x = torch.rand(40, 30, generator=torch.Generator().manual_seed(0))

    def door() -> tuple[Oracle, Recorder]:
        recorder = Recorder(tmp_path / "asked")
        ledger, log = Ledger(tmp_path / "ledger.sqlite", budget=40), AnswerLog(tmp_path / "answers")
        return Oracle(victim, "top:2", ledger=ledger, log=log, observer=recorder), recorder

    oracle, _ = door()
    oracle.query(x[:20])
    checkpoint = oracle.position
    oracle.query(x[20:30])
    oracle, recorder = door()  # killed: goes on after the checkpoint, and repeats what came after it
    oracle.seek(checkpoint)
    oracle.judge(x[:5])
    oracle.query(x[20:30])
    oracle.query(x[30:])
    rows, labels = seen(recorder)
    assert torch.equal(rows, x)
    assert torch.equal(labels, victim.respond(x, Question(torch.Generator())).argmax(1))


def test_only_the_first_rows_are_kept(victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 20)
    recorder = Recorder(tmp_path)
    oracle = Oracle(victim, "labels", observer=recorder)
    x = torch.rand(40, 30)
    oracle.query(x[:15])
    oracle.query(x[15:])
    assert torch.equal(seen(recorder)[0], x[:20])
    assert torch.equal(seen(Recorder(tmp_path))[0], x[:20])


def asked(victim: Victim, x: Tensor) -> tuple[Tensor, Tensor]:
    return x, Oracle(victim, "labels").query(x).labels


def test_detection_has_a_control_arm(victim: Victim, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    oracle = Oracle(victim, "labels", observer=recorder)
    oracle.query(torch.zeros(150, 30))
    honest = torch.rand(400, 30, generator=torch.Generator().manual_seed(1))
    found = detect("prada", recorder, asked(victim, honest))
    assert (found.fired_at, found.queries, found.benign) == (102, 150, None)
    assert detect("prada", recorder, asked(victim, torch.zeros(400, 30))).benign == 102
    assert detect("prada", recorder, None).benign is None


@pytest.mark.parametrize("name", ["prada", "seat", "hoda", "mmd"])
def test_missing_values_are_no_failure(victim: Victim, tmp_path: Path, name: str) -> None:
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(400, 30, generator=draws)
    x[torch.rand(x.shape, generator=draws) < 0.1] = torch.nan
    recorder, labels = Recorder(tmp_path / "asked"), (x.nan_to_num()[:, 0] > 0).long()
    recorder(1, x, labels)
    found = detect(name, recorder, (x, labels))
    assert found.queries == 400
