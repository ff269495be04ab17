"""Accounts of one thief who ask as honest users do: what all clients together hold whom no alarm names is said."""

import json

import pytest
import torch

from leakmeter.box import Box
from leakmeter.evaluation.intervals import exact
from leakmeter.plan import Policy
from leakmeter.traffic.client import split
from leakmeter.traffic.honest import honest_clients
from leakmeter.traffic.log import write_log
from leakmeter.traffic.thieves import thief
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.flow import watch
from leakmeter.watch.others import unnamed
from leakmeter.watch.record import Others
from leakmeter.watch.rows import rows_of
from leakmeter.watch.ruling import judged
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.state import State

SPEC = VictimSpec("m", (1,), Box(torch.tensor(0.0), torch.tensor(1.0)), 2, "labels")


@pytest.fixture(scope="module")
def scene(victim, natural, tmp_path_factory):
    """Twelve accounts that ask natural inputs, each too few to be looked at; users; one thief who is found."""
    hidden = thief(victim, "surrogate", 216, name="hidden", view="labels", pool=natural, recipe={"steps": 1})
    loud = thief(victim, "uniform", 900, name="loud", view="labels")
    users = honest_clients(victim, natural, 3, view="labels", queries=12)
    path = tmp_path_factory.mktemp("others") / "access.jsonl"
    write_log(path, [*users, *split(hidden, 12), loud])
    return path


def test_what_nobody_is_named_for_is_stated_as_if_it_were_one_clients(scene, planned, tmp_path):
    found = watch(scene, planned(line=0.85, honest=["user-0"]), out=tmp_path, progress=False)
    assert {each.client for each in found.clients if each.alarm} == {"loud"}
    ten, everybody = found.others
    assert (ten.accounts, everybody.accounts) == (10, 14)
    assert everybody.fidelity >= max(ten.fidelity, 0.85)
    said = found.verdict.sentences[-1]
    assert said.startswith("14 other clients are named by no alarm; together their answers buy a copy of ")
    assert "cannot be told from honest users by what they ask" in said
    assert "[log] group or network" in said
    assert json.loads((found.folder / "results.json").read_text())["others"][1]["accounts"] == 14
    assert said.partition(" ([log]")[0] in (found.folder / "report.md").read_text()


def test_below_the_line_no_split_hides_a_copy():
    some = Others(accounts=7, queries=90, trained_on=80, fidelity=0.5, interval=exact(500, 1000), thieves={"auto": 0.5})
    said = judged(Policy(), 0.8, [], [], [], [some]).sentences
    assert said == [
        "7 other clients are named by no alarm; together their answers buy a copy of 50.0% (46.9% to 53.1%): whichever "
        "of them are one, none of them holds a copy of 80% that we could make"
    ]
    assert judged(Policy(), 0.8, [], [], [], []).sentences == []


def test_who_is_not_named_the_busiest_first_and_a_part_of_what_they_asked(tmp_path):
    path = tmp_path / "log.jsonl"
    asked = {"a": 5, "b": 400, "c": 40, "staff": 9, "loud": 30}
    rows = [
        {"client": who, "time": k, "input": [(k + 1000 * n) / 10000], "answer": 0}
        for n, (who, count) in enumerate(asked.items())
        for k in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    state = State(tmp_path / "state", threads=1)
    state.read([("log.jsonl", path)], LogSettings(), SPEC)
    assert unnamed(state, ("staff",), {"loud"}) == ["b", "c", "a"]
    whole, part = (rows_of(state, ["a", "b", "c"], SPEC, tmp_path, 1000, sample=True, share=n) for n in (1, 4))
    assert len(whole) == 445
    assert 60 < len(part) < 170
    state.close()
