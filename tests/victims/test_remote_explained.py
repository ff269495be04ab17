"""Explanations in a server's own answers: read from there, counted as explanations, and no call more."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from tests.victims.test_remote import DESCRIPTION, Server, points, right, server
from torch import Tensor

from leakmeter.errors import LeakmeterError, NotApplicable, UsageError, VictimError
from leakmeter.extraction.base import extract
from leakmeter.oracle.ledger import ATTACK, EVALUATION
from leakmeter.oracle.oracle import Oracle
from leakmeter.training.loop import Recipe
from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.load import load_victim
from leakmeter.victims.remote.template import Description, Template
from leakmeter.victims.victim import Victim

__all__ = ["server"]
OWN = 'explanation = {{field = "results.*.{field}", kind = "{kind}"{more}}}\n'


def described(server: Server, folder: Path, field: str = "slopes", kind: str = "gradient", more: str = "") -> Victim:
    file = folder / "shop.toml"
    text = DESCRIPTION.format(address=server.address, answer="scores", outputs="probs")
    file.write_text(OWN.format(field=field, kind=kind, more=more) + text)
    return load_victim(file)


def slopes(x: Tensor) -> Tensor:
    return torch.stack([torch.autograd.functional.jacobian(lambda row: right(row[None])[0], row) for row in x])


def test_the_field_is_shown_and_counted_as_an_explanation_with_no_call_more(server, tmp_path) -> None:
    victim, x, before = described(server, tmp_path), points(70).float(), server.seen("classify")["rows"]
    oracle = Oracle(victim, "probs+gradient", 70)
    answer = oracle.query(x)
    torch.testing.assert_close(answer.gradients, slopes(x), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(answer.probs, right(x))
    assert server.seen("classify")["rows"] - before == 70
    entry = oracle.ledger.entry(ATTACK)
    assert (entry.queries, entry.explanations, entry.work) == (70, 70, 0)
    assert oracle.ledger.spent(EVALUATION) == 0
    assert "results.*.slopes" in victim.notes[0]
    victim.close()


def test_views_and_protections_show_their_part_of_it(server, tmp_path) -> None:
    victim, x = described(server, tmp_path), points(9).float()
    label = Oracle(victim, "labels+gradient/sign").query(x)
    named = slopes(x)[torch.arange(9), label.labels].sign()
    torch.testing.assert_close(label.explanation[torch.arange(9), label.labels], named)
    two = Oracle(victim, "top:2+gradient").query(x)
    assert torch.equal((two.explanation != 0).any(2), two.shown)
    victim.close()


def test_a_map_of_the_class_named_is_shown_where_one_class_is(server, tmp_path) -> None:
    victim, x = described(server, tmp_path, "slope", more=', of = "label"'), points(9).float()
    shown = Oracle(victim, "labels+gradient").query(x)
    named = torch.arange(9), shown.labels
    torch.testing.assert_close(shown.explanation[named], slopes(x)[named], atol=1e-6, rtol=1e-5)
    with pytest.raises(NotApplicable, match=r"explains the class it names alone; ask through 'labels\+gradient'"):
        Oracle(victim, "probs+gradient")
    victim.close()


def test_other_explanations_are_computed_by_calls_or_refused(server, tmp_path) -> None:
    victim, x = described(server, tmp_path), points(4).float()
    oracle = Oracle(victim, "probs+occlusion", 4)
    oracle.query(x)
    assert oracle.ledger.spent(EVALUATION) == 4 * 5
    with pytest.raises(NotApplicable, match="needs a differentiable victim"):
        Oracle(victim, "probs+gradxinput")
    victim.close()


def test_a_copy_is_made_from_it(server, tmp_path) -> None:
    victim = described(server, tmp_path)
    made = extract(
        "gradients",
        Oracle(victim, "probs+gradient", 20),
        pool=points(20).float(),
        student="mlp:16",
        test=points(200).float(),
        recipe=Recipe(steps=100, batch=16, lr=1e-2),
    )
    assert made.curve[-1].score is not None
    assert made.curve[-1].score.fidelity > 0.8
    victim.close()


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ("nowhere", "is not as described: its answer had nothing at 'nowhere'"),
        ("slope", "its explanation had the shape (3, 4) instead of (3, 3, 4)"),
        ("best", "its answer held something that is not a number"),
        ("scores", "its explanation had the shape (3, 3) instead of (3, 3, 4)"),
    ],
)
def test_what_is_not_as_described_is_said_at_once(server, tmp_path, field, sentence) -> None:
    victim, before = described(server, tmp_path, field), server.seen("classify")["rows"]
    with pytest.raises(VictimError, match=re.escape(sentence)) as caught:
        Oracle(victim, "probs+gradient").query(points(3).float())
    assert "\n" not in str(caught.value)
    assert server.seen("classify")["rows"] - before == 3
    victim.close()


@pytest.mark.parametrize(
    ("kind", "more", "sentence"),
    [
        ("gradiant", "", "unknown explanation 'gradiant'; did you mean 'gradient'"),
        ("counterfactual", "", "expected the kind of an explanation that is a map"),
        ("gradient", ', of = "second"', "expected a model of two classes for an explanation of the second, got 3"),
        ("gradient", ', of = "third"', "explanation.of"),
    ],
)
def test_a_wrong_description_of_it_is_told(server, tmp_path, kind, more, sentence) -> None:
    with pytest.raises(LeakmeterError, match=re.escape(sentence)):
        Oracle(described(server, tmp_path, kind=kind, more=more), "probs+gradient")


@pytest.mark.parametrize("by_name", [True, False])
def test_maps_of_pictures_are_nested_deeper(by_name: bool) -> None:
    about = {"url": "http://127.0.0.1:9", "answer": "best", "names": ["cat", "dog"], "request": {"x": "{row}"}}
    wire = Template(Description(**about, explanation=OwnExplanation(field="maps", kind="gradient")))
    maps = torch.arange(8.0).reshape(2, 1, 2, 2).tolist()
    told = {"best": "dog", "maps": dict(zip(("cat", "dog"), maps, strict=True)) if by_name else maps}
    labels, found = wire.decode_explained(json.dumps(told).encode())
    assert labels.tolist() == [1]
    assert found.tolist() == [maps]


def test_an_output_of_the_protocol_holds_it(server) -> None:
    own = {"field": "slopes", "kind": "gradient"}
    victim, x = load_victim(server.model("explained"), remote={"explanation": own}), points(20)
    answer = Oracle(victim, "probs+gradient").query(x)
    torch.testing.assert_close(answer.gradients, slopes(x))
    torch.testing.assert_close(answer.probs, right(x))
    victim.close()
    other = load_victim(server.model("explained"), remote={"output": "probs", "explanation": {**own, "field": "maps"}})
    with pytest.raises(VictimError, match="held no output 'maps'"):
        Oracle(other, "probs+gradient").query(x)
    other.close()
    with pytest.raises(UsageError, match="the model has the outputs probs, slopes; choose one"):
        load_victim(server.model("explained"))
