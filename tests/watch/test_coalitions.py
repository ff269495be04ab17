"""Clients that the log itself puts together: by the owner's column, and by network."""

import json

import torch

from leakmeter.box import Box
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.coalitions import told_coalitions
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.state import State

SPEC = VictimSpec("m", (1,), Box(torch.tensor(0.0), torch.tensor(1.0)), 2, "labels")
WHO = {
    "a": ("10.1.2.3", "x"),
    "b": ("10.1.2.200", "y"),
    "c": ("10.1.3.1", "x"),
    "d": ("2001:db8:1:2::7", None),
    "e": ("2001:db8:1:9::1", None),
    "staff": ("10.1.2.9", "x"),
}


def test_networks_and_groups_without_those_declared_honest(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [
        {"client": who, "time": k, "input": [(k + 10 * n) / 100], "answer": 0, "ip": ip, "payer": payer}
        for n, (who, (ip, payer)) in enumerate(WHO.items())
        for k in range(10)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    state = State(tmp_path / "state", threads=1)
    state.read([("log.jsonl", path)], LogSettings(network="ip", group="payer"), SPEC)
    found = {each.label: each.clients for each in told_coalitions(state, ("staff",), 5, 9)}
    assert found == {
        "group x": ("a", "c"),
        "network 10.1.2.0/24": ("a", "b"),
        "network 2001:db8:1::/48": ("d", "e"),
    }
    assert told_coalitions(state, ("staff",), 500, 9) == []
    state.close()
