"""What a short plan leaves open: the attacks that suit the victim, and how long they may take."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from leakmeter.data.catalogue import NAMES
from leakmeter.data.dataset import Dataset
from leakmeter.errors import NotApplicable, UsageError
from leakmeter.extraction.base import ATTACKS, make_attack
from leakmeter.extraction.pace import pace
from leakmeter.oracle.view import View
from leakmeter.plan import AttackPlan, Plan, TransferPlan
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

_ATTACKS = ("auto", "plain", "gradients", "counterfactual", "exact", "exact-values")
_FOR_TABLES = (*_ATTACKS, "exact-tree")
_READERS = ("gradients", "counterfactual")
_SMALL = 100  # inputs; reading a model off its values asks for each of them and each unit several times
_CORES = 2  # that the time of a plan which sets no limit is reckoned for, whatever the machine has
_MINUTES, _LARGE, _MINUTES_LARGE = 3.8, 1024, 24.0  # such a plan takes about so long: by the number of inputs
_HALVINGS = 10  # of the range of efforts, until one is found that takes so long
_QUICK = 0.5  # minutes
_LEAST, _MOST = 0.01, 4.0  # effort


def complete(plan: Plan, victim: Victim, test: Dataset | None, processes: int = _CORES) -> Plan:
    """Fills in what a short plan leaves open: attacks, views that the victim can give, and the effort that time allows.

    Args:
        plan: what the owner wrote.
        victim: the model.
        test: the owner's test data, if any.
        processes: how many cells run at once, to fit into the `minutes` of the plan.
    """
    if test is not None and test.input_shape != victim.spec.input_shape:
        raise UsageError(f"expected test inputs of shape {victim.spec.input_shape}, got {test.input_shape}")
    changes: dict[str, Any] = _quicker(plan)
    if victim.spec.outputs == "labels" and plan.views == Plan.model_fields["views"].default:
        changes["views"] = ("labels",)
    if not plan.attacks:
        table = victim.spec.columns is not None  # whose copies are trees, which have no gradients to follow
        labelled = test is not None and test.y is not None and victim.spec.width is not None
        if plan.transfer is None and labelled and not table and not plan.quick:
            changes["transfer"] = TransferPlan()
        shown = plan.model_copy(update=changes)
        views = [View.parse(view) for view in (*shown.views, *shown.explained_views)]
        names = [name for name in (_FOR_TABLES if table else _ATTACKS) if _suits(name, victim.spec, views)]
        control = () if plan.quick else _real_pool(plan, table, test is not None and test.y is None)
        public = () if plan.pool is None else (AttackPlan(name="auto", pool=plan.pool, data_dir=_folder(plan)),)
        readers = () if plan.pool is None or table else _READERS  # what explains pictures of one's own tells most
        known = {"pool": plan.pool, "data_dir": _folder(plan)}
        usual = (AttackPlan(name=name, **(known if name in readers else {})) for name in names)
        changes |= {"attacks": (*usual, *public, *control), "pool": None}
    return _in_time(plan.model_copy(update=changes), victim.spec, processes, limited=not plan.attacks)


def _quicker(plan: Plan) -> dict[str, Any]:
    """Of a quick plan: one seed and few points of the curve, where it does not say otherwise."""
    if not plan.quick:
        return {}
    quick: dict[str, Any] = {"seeds": (0,), "stops": tuple(sorted({1, max(1, plan.budget // 8)})), "minutes": _QUICK}
    return {key: value for key, value in quick.items() if key not in plan.model_fields_set}


def _in_time(plan: Plan, spec: VictimSpec, processes: int, *, limited: bool) -> Plan:
    """The plan with the effort of its attacks fitted to its minutes, where it names none."""
    if plan.minutes is None and not limited:
        return plan
    cells = list(plan.cells())
    cores = min(_CORES if plan.minutes is None else processes, max(1, len(cells)))
    minutes = plan.minutes or (_MINUTES if spec.features <= _LARGE else _MINUTES_LARGE)
    free = [cell for cell in cells if _adjustable(cell.attack, cell.options)]
    plan = plan if plan.pace or not free else plan.model_copy(update={"pace": pace(spec, plan.device, cores)})
    slower = plan.pace or 1.0

    def seconds(effort: float) -> float:
        each = ((make_attack(cell.attack, {**cell.options, "effort": effort}), cell.stops) for cell in free)
        return slower * sum(attack.expected_seconds(spec, stops) or 0.0 for attack, stops in each) / cores

    if not seconds(1.0):
        return plan
    least, most = _LEAST, 1.0 if plan.minutes is None else _MOST
    for _ in range(_HALVINGS):  # time does not fall in proportion to effort: trials have a least length
        middle = (least + most) / 2
        least, most = (least, middle) if seconds(middle) > 60 * minutes else (middle, most)
    effort = round(least, 3)
    attacks = [
        attack.model_copy(update={"effort": effort}) if _adjustable(attack.name, attack.options) else attack
        for attack in plan.attacks
    ]
    return plan.model_copy(update={"attacks": tuple(attacks)})


def _adjustable(name: str, options: dict[str, Any]) -> bool:
    return "effort" in ATTACKS[name].model_fields and "effort" not in options


def _suits(name: str, spec: VictimSpec, views: list[View]) -> bool:
    """Whether some view gives the attack what it reads: what a view shows is measured by who makes something of it."""
    if name == "exact-values" and spec.features > _SMALL:
        return False
    if name in ("exact", "exact-values") and any(column.kind != "numeric" for column in spec.columns or ()):
        return False  # they ask points that no row holds
    attack = make_attack(name, {})
    for view in views:
        with suppress(NotApplicable):
            attack.check(spec, view)
            return True
    return False


def _real_pool(plan: Plan, table: bool, unlabelled: bool) -> tuple[AttackPlan, ...]:
    """The control arm that shows what having data is worth: the same number of real inputs."""
    if plan.data is None or plan.data.split == "train" or (unlabelled and plan.data.name not in NAMES):
        return ()
    if table:
        return (AttackPlan(name="tabular", control=True, adaptive=False, pool=plan.data.name),)
    return (AttackPlan(name="auto", control=True, sources=(), pool=plan.data.name, data_dir=_folder(plan)),)


def _folder(plan: Plan) -> str | None:
    """Where datasets lie."""
    return None if plan.data is None else plan.data.dir
