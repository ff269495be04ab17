"""Leases for a whole cluster: one actor on the driver's machine has the file, every worker asks it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from leakmeter.oracle.limits import Leases, Slot


class _Keeper(Leases):
    """The actor.

    Should it die, it is started again with all that was taken on file, and the call is made once more: that can count a
    question twice, but never leave one out.
    """

    def __init__(self, path: Path) -> None:
        self._open(path, time.monotonic)


class RayLessor:
    """What a worker holds: the same questions, asked of the actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RayLessor) and self._actor._actor_id == other._actor._actor_id

    def __hash__(self) -> int:
        return hash(self._actor._actor_id)

    def begin(self, job: str) -> int:
        """The number of this attempt at the job; earlier ones get nothing any more."""
        return int(self._ask("begin", job))

    def take(self, job: str, attempt: int, account: str, rows: int) -> None:
        """Counts rows that are about to be asked, or raises BudgetExhausted: then they must not be."""
        self._ask("take", job, attempt, account, rows)

    def taken(self, job: str) -> dict[str, int]:
        """All rows that all attempts at the job took, by account."""
        return dict(self._ask("taken", job))

    def slot(self) -> Slot:
        """The next place in the queue of requests."""
        slot: Slot = self._ask("slot")
        return slot

    def stands(self, slot: Slot) -> bool:
        """Whether no pause has begun since the slot was given."""
        return bool(self._ask("stands", slot))

    def hold(self, seconds: float) -> None:
        """Nothing leaves for that long: the victim asked for it."""
        self._ask("hold", seconds)

    def _ask(self, method: str, *args: object) -> Any:
        try:
            # Not `ray.get`: a task that waits in it lends its CPUs to others, and has to share them afterwards.
            return getattr(self._actor, method).remote(*args).future().result()
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None


def keep(path: Path) -> RayLessor:
    """Starts the actor here, where the file is; it ends with whoever holds the last handle."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(_Keeper).options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
    return RayLessor(actor.remote(path))
