"""Which attacks a plan that names none gets: those that make something of what is shown."""

from __future__ import annotations

import pytest
from torch import nn

from leakmeter._audit.flow import complete
from leakmeter.plan import make_plan
from leakmeter.victims.load import load_victim


def names(views: list[str], features: int = 16, outputs: int = 4, **spec: str) -> list[str]:
    net = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, outputs))
    victim = load_victim(net, input_shape=(features,), low=0.0, high=1.0, **spec)
    plan = make_plan({"victim": {"source": "a:b"}, "views": views})
    return [attack.name for attack in complete(plan, victim, None).attacks]


@pytest.mark.parametrize(
    ("views", "features", "reads"),
    [
        (["labels"], 16, set()),
        (["probs:2"], 16, set()),
        (["probs"], 16, {"exact-values"}),
        (["probs"], 200, set()),
        (["probs", "probs+gradient"], 16, {"exact-values", "gradients", "exact"}),
        (["labels", "logits+gradient"], 200, {"gradients", "exact"}),
    ],
)
def test_what_is_shown_decides_who_attacks(views: list[str], features: int, reads: set[str]) -> None:
    found = names(views, features)
    assert {"procedural", "surrogate"} <= {*found} or "auto" in found
    assert {*found} & {"exact-values", "gradients", "exact"} == reads


def test_what_asks_points_between_rows_is_no_attack_on_a_table() -> None:
    columns = {"a": {"kind": "integer", "low": 0, "high": 9}, "b": {"kind": "numeric", "low": 0, "high": 1}}
    plan = make_plan({"victim": {"source": "a:b"}, "views": ["probs"]})
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    found = complete(plan, load_victim(net, columns=columns), None).attacks
    assert {attack.name for attack in found} == {"auto", "exact-tree"}
    columns["a"]["kind"] = "numeric"
    found = complete(plan, load_victim(net, columns=columns), None).attacks
    assert {attack.name for attack in found} == {"auto", "exact-tree", "exact-values"}
