"""What every attack shares: an `Attack` is its hyper-parameters and a `run`; `extract` gives it a door and a clock."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn

from leakmeter.errors import UsageError
from leakmeter.evaluation.score import Reference, Score, TestData, reference
from leakmeter.models import MODELS, make_model
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.oracle import Oracle
from leakmeter.progress import SILENT, Progress
from leakmeter.registry import Registry, did_you_mean
from leakmeter.seeds import derive
from leakmeter.training.loop import Checkpoint
from leakmeter.victims.spec import VictimSpec

if TYPE_CHECKING:
    from leakmeter.runs.run import Run

_SHEET = 64  # queries kept for the contact sheet


class CurvePoint(BaseModel):
    """The copy at one moment: queries spent, and how good it was (None: no test data)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: int
    score: Score | None


@dataclass
class Job:
    """What an attack is given beside the oracle: where to compute, where to report, where to leave its state."""

    seed: int
    device: torch.device
    progress: Progress = SILENT
    stops: tuple[int, ...] = ()
    """Query counts, rising, at which the curve wants a point; the last is where the attack ends."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Facts for the report, as JSON values."""
    curve: list[CurvePoint] = field(default_factory=list)
    queries: Tensor | None = None
    """A few of the queries, for the contact sheet."""
    _reference: Reference | None = None
    _run: Run | None = None

    def observe(self, substitute: nn.Module, queries: int) -> None:
        """Adds a point to the curve. The owner's scores go to the report, never back to the attack."""
        self.curve.append(
            CurvePoint(queries=queries, score=None if self._reference is None else self._reference.score(substitute))
        )

    def checkpoint(self, name: str) -> Checkpoint | None:
        """Where the state called `name` survives a kill; None when nothing is kept on disk."""
        return None if self._run is None else self._run.checkpoint(name)

    def show_queries(self, x: Tensor) -> None:
        """Keeps the first queries shown, for the contact sheet."""
        if self.queries is None:
            self.queries = x[:_SHEET].detach().cpu().clone()

    def student(self, name: str | None, oracle: Oracle) -> nn.Module:
        """A fresh substitute network for this victim: a model's name, or `package.module:factory`."""
        return make_student(student_name(name, oracle.spec), oracle.spec, derive(self.seed, "student")).to(self.device)


class Attack(BaseModel, ABC):
    """A black-box extraction: fields are hyper-parameters, `run` spends queries and returns the substitute."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @abstractmethod
    def run(self, oracle: Oracle, job: Job) -> nn.Module:
        """Asks `oracle` until the last of `job.stops` or until nothing is left, and returns the final copy."""


ATTACKS: Registry[type[Attack]] = Registry(
    "attack",
    {
        "surrogate": "leakmeter.extraction.surrogate:Surrogate",
        "dfme": "leakmeter.extraction.dfme:Dfme",
        "codfe": "leakmeter.extraction.codfe:Codfe",
        "dast": "leakmeter.extraction.dast:Dast",
        "procedural": "leakmeter.extraction.procedural:Procedural",
        "gradients": "leakmeter.extraction.gradients:Gradients",
        "exact": "leakmeter.extraction.exact.attack:Exact",
        "exact-values": "leakmeter.extraction.exact.attack:ExactValues",
        "exact-tree": "leakmeter.extraction.exact_tree.attack:ExactTree",
    },
)


@dataclass(frozen=True, eq=False)
class Extraction:
    """What an attack brought home."""

    name: str
    substitute: nn.Module
    """Input to logits (for `exact`: to the victim's own outputs); the final one, in evaluation mode."""
    curve: list[CurvePoint]
    ledger: Ledger
    seconds: float
    notes: dict[str, Any]
    queries: Tensor | None
    """A few of the queries it asked."""
    student: str | None
    """The name the substitute can be built by; None: it is a network of the attack's own."""
    untrained: Score | None
    """The control: the same network before it learned anything."""


def make_attack(name: str, options: dict[str, Any]) -> Attack:
    """The attack with its hyper-parameters checked."""
    kind = ATTACKS[name]
    for key in options:
        if key not in kind.model_fields:
            raise UsageError(
                f"the attack '{name}' has no option '{key}'{did_you_mean(key, kind.model_fields)} "
                f"(known: {', '.join(kind.model_fields) or 'none'})"
            )
    try:
        return kind(**options)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or name
        raise UsageError(f"the attack '{name}' got {first['input']!r} for {place}: {first['msg']}") from error


def extract(
    name: str,
    oracle: Oracle,
    *,
    seed: int = 0,
    test: TestData | Reference | None = None,
    stops: Sequence[int] = (),
    device: torch.device | str = "cpu",
    progress: Progress = SILENT,
    run: Run | None = None,
    **options: Any,
) -> Extraction:
    """Copies the model behind `oracle`.

    Args:
        name: an attack: surrogate, dfme, codfe, dast, procedural, gradients, exact, exact-values.
        oracle: the only access to the victim.
        seed: the same seed gives the same copy.
        test: data for the curve, seen by the owner's scoring only; the victim's answers to it may come along.
        stops: query counts at which to put a point on the curve; the budget's end is always one.
        device: where the substitute trains.
        progress: what shows progress.
        run: a run directory for checkpoints; None keeps nothing.
        **options: the attack's hyper-parameters.
    """
    attack = make_attack(name, options)
    judge = test if test is None or isinstance(test, Reference) else reference(oracle, test)
    job = Job(seed, torch.device(device), progress, _stops(stops, oracle.remaining), _reference=judge, _run=run)
    start = time.perf_counter()
    substitute = attack.run(oracle, job).eval()
    seconds = time.perf_counter() - start
    if not job.curve:
        job.observe(substitute, oracle.ledger.spent())
    student = student_name(attack.student, oracle.spec) if hasattr(attack, "student") else None
    untrained = None
    if judge is not None and student is not None:
        untrained = judge.score(make_student(student, oracle.spec, derive(seed, "untrained")))
    return Extraction(name, substitute, job.curve, oracle.ledger, seconds, job.notes, job.queries, student, untrained)


def student_name(name: str | None, spec: VictimSpec) -> str:
    """The network an attack uses: the one named, else lenet for images and mlp for features."""
    return name or ("lenet" if len(spec.input_shape) == 3 else "mlp")


def make_student(name: str, spec: VictimSpec, seed: int) -> nn.Module:
    """An untrained substitute for a victim of this spec: a model's name, or `package.module:factory`."""
    if ":" not in name or name.partition(":")[0] in MODELS:
        return make_model(name, spec.input_shape, spec.classes, seed=seed)
    from leakmeter.victims.factory import call_factory

    made = call_factory(name)
    if not isinstance(made, nn.Module):
        raise UsageError(f"expected '{name}' to make an nn.Module as the substitute, got {type(made).__name__}")
    return made


def _stops(stops: Sequence[int], left: int | None) -> tuple[int, ...]:
    if left == 0:
        raise UsageError("expected a budget with queries left, got none; give the oracle a larger one")
    bad = [stop for stop in stops if stop < 1 or (left is not None and stop > left)]
    if bad:
        raise UsageError(f"expected stops between 1 and the {left or 'unlimited'} queries left, got {bad[0]}")
    ends = {*stops} if left is None else {*stops, left}
    return tuple(sorted(ends))
