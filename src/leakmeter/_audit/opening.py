"""From a plan to live objects: the owner's test data and the victim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from leakmeter.data.catalogue import load
from leakmeter.data.columns import Columns
from leakmeter.data.dataset import Dataset, Split
from leakmeter.data.table import SUFFIXES
from leakmeter.patience import patient
from leakmeter.plan import Plan
from leakmeter.seeds import stream
from leakmeter.victims.column_names import column_names
from leakmeter.victims.drawn import drawn
from leakmeter.victims.load import load_victim
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.victim import Victim

DRAWN = "inputs drawn by chance"
_DRAWN, _DRAWN_REMOTE = 1000, 200  # test inputs where the owner gives none; a server's answers may cost money
_DRAWN_LEAST, _DRAWN_NUMBERS = 120, 1 << 24  # of large inputs fewer
_FEW = 32  # features whose ranges are read off the test data one by one
_READ_OFF = (
    "The ranges and levels of the columns were read off {}: the attacker was told them, and asked nothing outside; "
    "`leakmeter init --data` writes them into [columns] for you to correct."
)


def load_test(plan: Plan) -> Dataset | None:
    """The owner's test data, if there is any."""
    if plan.data is None:
        return None
    data = _load(plan, "all" if plan.data.split == "test" else "train")
    if data.y is not None and plan.data.split == "test" and _train_part_is_used(plan):
        data = _load(plan, "test")
    if plan.data.limit is not None and plan.data.limit < len(data):
        data = data.take(plan.data.limit, stream(0, "test"))
    return data


def _load(plan: Plan, split: Split) -> Dataset:
    assert plan.data is not None
    low, high = (float(edge) if isinstance(edge, float | int) else None for edge in (plan.victim.low, plan.victim.high))
    return load(
        plan.data.name,
        split,
        Path(plan.data.dir) if plan.data.dir else None,
        columns=Columns.parse(plan.columns) if plan.columns else None,
        target=plan.data.target,
        names=column_names(plan.victim.source) if Path(plan.data.name).suffix.lower() in SUFFIXES else None,
        bounds=None if low is None or high is None else (low, high),
    )


def _train_part_is_used(plan: Plan) -> bool:
    """Whether some arm asks the rows of the same file that are not tested: a plan without attacks gets one.

    The same before and after the plan is completed: whoever runs a cell reads the data again, by the complete plan.
    """
    assert plan.data is not None
    if not plan.attacks:
        return not plan.quick
    return any(attack.options.get("pool") == plan.data.name for attack in plan.attacks)


def fit_test(test: Dataset, victim: Victim) -> Dataset:
    """The test data in the range the model takes: what pixels are becomes what users send."""
    return test.into(victim.spec.box)


def test_inputs(plan: Plan, test: Dataset | None, victim: Victim) -> Dataset | None:
    """The test data in the model's range; inputs drawn by chance where there are none, unless they cost too much."""
    if test is not None:
        return fit_test(test, victim)
    if plan.total is not None:  # which the owner meant for attacks
        return None
    most = max(_DRAWN_LEAST, min(_DRAWN_REMOTE if victim.remote else _DRAWN, _DRAWN_NUMBERS // victim.spec.features))
    x = drawn(victim.spec, most)
    return Dataset(
        DRAWN, x, None, None, columns=victim.spec.columns, range=(float(x.min()), float(x.max())), pixels=False
    )


def _edges(test: Dataset) -> tuple[Any, Any]:
    """The lowest and highest values of the test data, of few features each its own; a constant one may vary by one."""
    if test.x.dim() == 4:
        return test.range
    low, high = test.x.aminmax(dim=0) if test.x.dim() == 2 and test.x.shape[1] <= _FEW else test.x.aminmax()
    return low.numpy(), torch.where(low < high, high, low + 1).numpy()


def open_victim(plan: Plan, test: Dataset | None, share: Share | None = None) -> Victim:
    """Loads the victim; what it does not say itself is taken from the test data where that says it."""
    given = plan.victim.keywords()
    if test is not None:
        given.setdefault("input_shape", test.input_shape)
        given["assumed"] = _edges(test)
    columns = Columns.parse(plan.columns) if plan.columns else None if test is None else test.columns
    if columns is not None:
        given["columns"] = columns
    with patient(plan.patience, f"loading the victim {plan.victim.source}"):
        victim = load_victim(plan.victim.source, device=plan.device, share=share, **given)
    victim.patience = plan.patience
    if columns is not None and not plan.columns and plan.data is not None:
        victim.notes = (*victim.notes, _READ_OFF.format(Path(plan.data.name).name))
    return victim
