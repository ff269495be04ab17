"""What a client was shown is read off the log as it was: labels, probabilities, decimals, the best few classes."""

import pytest
import torch

from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.watch.rows import rows_of
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.state import State


@pytest.mark.parametrize("view", ["labels", "probs", "probs:2", "probs:6", "top:2", "top:1"])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_log_says_what_was_shown(victim, tmp_path, view, ending):
    client = thief(victim, "uniform", 60, view=view, effort=0.05, students=("linear",))
    path = tmp_path / f"log.{ending}"
    write_log(path, [client])
    state = State(tmp_path / "state", threads=1)
    state.read([("log", path)], LogSettings(), victim.spec)
    rows = rows_of(state, [client.name], victim.spec, tmp_path, 100)
    state.close()
    assert str(rows.given.answer.view) == view
    assert torch.equal(rows.given.x, client.x)
    assert torch.equal(rows.given.answer.labels, client.answer.labels)
    if view != "labels":
        assert torch.equal(rows.given.answer.probs, client.answer.probs)
