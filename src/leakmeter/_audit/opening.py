"""From a plan to live objects: the owner's test data and the victim."""

from __future__ import annotations

from pathlib import Path

from leakmeter.data.catalogue import load
from leakmeter.data.dataset import Dataset
from leakmeter.patience import patient
from leakmeter.plan import Plan
from leakmeter.seeds import stream
from leakmeter.victims.load import load_victim
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.victim import Victim


def load_test(plan: Plan) -> Dataset | None:
    """The owner's test data, if there is any."""
    if plan.data is None:
        return None
    data = load(plan.data.name, plan.data.split, Path(plan.data.dir) if plan.data.dir else None)
    if plan.data.limit is not None and plan.data.limit < len(data):
        data = data.take(plan.data.limit, stream(0, "test"))
    return data


def open_victim(plan: Plan, test: Dataset | None, share: Share | None = None) -> Victim:
    """Loads the victim; what it does not say itself is taken from the test data where that says it."""
    given = plan.victim.keywords()
    if test is not None:
        given.setdefault("input_shape", test.input_shape)
        if test.x.dim() == 4:  # images live in [0, 1] in every dataset here
            given.setdefault("low", 0.0)
            given.setdefault("high", 1.0)
    with patient(plan.patience, f"loading the victim {plan.victim.source}"):
        victim = load_victim(plan.victim.source, device=plan.device, share=share, **given)
    victim.patience = plan.patience
    return victim
