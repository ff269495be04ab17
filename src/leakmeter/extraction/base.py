"""What every attack shares. An `Attack` is its hyper-parameters, a `check` and a `run`; `extract` does the rest."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from leakmeter.checkpoint import Checkpoint
from leakmeter.errors import UsageError
from leakmeter.evaluation.score import Reference, Score, TestData, reference
from leakmeter.extraction.certificate import certify_copy, fresh_reference, hard_count
from leakmeter.extraction.findings import Findings
from leakmeter.extraction.targets import require_classes
from leakmeter.models import MODELS, make_model
from leakmeter.oracle.ledger import Ledger
from leakmeter.oracle.oracle import Oracle
from leakmeter.oracle.view import View
from leakmeter.progress import SILENT, Progress
from leakmeter.registry import Registry
from leakmeter.seeds import derive
from leakmeter.settings import checked
from leakmeter.victims.spec import VictimSpec

_SHEET = 64  # queries kept for the contact sheet


class CurvePoint(BaseModel):
    """The copy at one moment: queries spent, and how good it was (None: not measured)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: int
    score: Score | None


@dataclass
class AttackJob:
    """What an attack is given beside the oracle: where to compute, where to report, where to leave its state."""

    seed: int
    device: torch.device
    progress: Progress = SILENT
    stops: tuple[int, ...] = ()
    """Query counts, rising, at which the curve wants a point; the last is where the attack ends."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Facts for the report, as JSON values; no verdict depends on them."""
    curve: list[CurvePoint] = field(default_factory=list)
    queries: Tensor | None = None
    """A few of the queries, for the contact sheet."""
    checkpoints: Callable[[str], Checkpoint] | None = None
    """Where states survive a kill; None: nowhere."""
    _reference: Reference | None = None

    def observe(self, substitute: nn.Module, queries: int) -> None:
        """Adds a point to the curve. The owner's scores go to the report, never back to the attack."""
        score = None if self._reference is None else self._reference.score(substitute)
        self.curve.append(CurvePoint(queries=queries, score=score))

    def checkpoint(self, name: str) -> Checkpoint | None:
        """Where the state called `name` survives a kill; None when nothing is kept on disk."""
        return None if self.checkpoints is None else self.checkpoints(name)

    def show_queries(self, x: Tensor) -> None:
        """Keeps the first queries shown, for the contact sheet."""
        if self.queries is None:
            self.queries = x[:_SHEET].detach().cpu().clone()

    def student(self, name: str | None, oracle: Oracle) -> nn.Module:
        """A fresh substitute network for this victim: a model's name, or `package.module:factory`."""
        return make_student(student_name(name, oracle.spec), oracle.spec, derive(self.seed, "student")).to(self.device)


class Attack(BaseModel, ABC):
    """A black-box extraction: fields are hyper-parameters, `extract` calls `check` and `run` and measures the copy."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)
    reads_explanations: ClassVar[bool] = False
    """Whether it makes something of explanations; only such an attack can say what showing them gives away."""

    reads_labels_only: ClassVar[bool] = False
    """Whether it makes nothing of what a view shows beyond labels: what it gets from labels, it gets from any view."""
    certified: ClassVar[bool] = False
    """Whether its copies set out to be exact, so that a certificate is measured for them."""
    single_score: ClassVar[bool] = False
    """Whether it can copy a model of one output, which names no class to learn."""

    @classmethod
    def reads(cls, view: str) -> bool:
        """Whether it makes something of what a view explains."""
        return cls.reads_explanations and "+" in view

    def check(self, spec: VictimSpec, view: View) -> None:  # noqa: ARG002  the view is for those who override this
        """Raises NotApplicable, before anything is asked, where the attack cannot work."""
        if not self.single_score:
            require_classes(spec.classes)

    def hard_points(self, copy: nn.Module, spec: VictimSpec, n: int, seed: int) -> list[Tensor]:  # noqa: ARG002
        """Where such copies are likely off: of every kind n points or fewer, [n, d], for the owner's certificate."""
        return []

    def expected_seconds(self, spec: VictimSpec, stops: tuple[int, ...]) -> float | None:  # noqa: ARG002
        """Seconds of its own computing on one core, told before the first query; None: it cannot tell."""
        return None

    @abstractmethod
    def run(self, oracle: Oracle, job: AttackJob) -> tuple[nn.Module, Findings]:
        """Asks `oracle` until the last of `job.stops` or until nothing is left; the final copy and what was found."""


ATTACKS: Registry[type[Attack]] = Registry(
    "attack",
    {
        "surrogate": "leakmeter.extraction.surrogate:Surrogate",
        "dfme": "leakmeter.extraction.dfme:Dfme",
        "codfe": "leakmeter.extraction.codfe:Codfe",
        "dast": "leakmeter.extraction.dast:Dast",
        "procedural": "leakmeter.extraction.procedural:Procedural",
        "auto": "leakmeter.extraction.auto:Auto",
        "plain": "leakmeter.extraction.plain:Plain",
        "gradients": "leakmeter.extraction.gradients:Gradients",
        "counterfactual": "leakmeter.extraction.counterfactual:Counterfactuals",
        "exact": "leakmeter.extraction.exact.attack:Exact",
        "exact-values": "leakmeter.extraction.exact.attack:ExactValues",
        "tabular": "leakmeter.extraction.tabular:Tabular",
        "exact-tree": "leakmeter.extraction.exact_tree.attack:ExactTree",
    },
    group="leakmeter.attacks",
)


@dataclass(frozen=True, eq=False)
class Extraction:
    """What an attack brought home."""

    name: str
    substitute: nn.Module
    """Input to logits (for `exact`: to the victim's own outputs); the final one, in evaluation mode."""
    findings: Findings
    curve: list[CurvePoint]
    ledger: Ledger
    seconds: float
    notes: dict[str, Any]
    queries: Tensor | None
    """A few of the queries it asked."""
    untrained: Score | None
    """The control: the same network before it learned anything."""

    @property
    def student(self) -> str | None:
        """The name the substitute can be built by; None: it is a network of the attack's own."""
        return self.findings.student


def make_attack(name: str, options: dict[str, Any]) -> Attack:
    """The attack with its hyper-parameters checked."""
    return checked(ATTACKS[name], options, f"the attack '{name}'")


def extract(
    name: str,
    oracle: Oracle,
    *,
    seed: int = 0,
    test: TestData | Reference | None = None,
    stops: Sequence[int] = (),
    device: torch.device | str = "cpu",
    progress: Progress = SILENT,
    checkpoints: Callable[[str], Checkpoint] | None = None,
    **options: Any,
) -> Extraction:
    """Copies the model behind `oracle`.

    Args:
        name: an attack: auto, surrogate, dfme, codfe, dast, procedural, gradients, counterfactual, exact, ...
        oracle: the only access to the victim.
        seed: the same seed gives the same copy.
        test: data for the curve, seen by the owner's scoring only; the victim's answers to it may come along. Without
            any, an exact copy is scored on the points of its certificate.
        stops: query counts at which to put a point on the curve; the budget's end is always one.
        device: where the substitute trains.
        progress: what shows progress.
        checkpoints: from a name to where a state of that name survives a kill; None keeps nothing.
        **options: the attack's hyper-parameters.
    """
    attack = make_attack(name, options)
    attack.check(oracle.spec, oracle.view)
    judge = test if test is None or isinstance(test, Reference) else reference(oracle, test)
    ends = _stops(stops, oracle)
    job = AttackJob(seed, torch.device(device), progress, ends, checkpoints=checkpoints, _reference=judge)
    start = time.perf_counter()
    substitute, findings = attack.run(oracle, job)
    seconds = time.perf_counter() - start
    findings = _measured(attack, substitute.eval(), findings, oracle, job)
    if judge is None and job._reference is not None:
        job.curve.clear()  # seen before there was anything to score a copy on
    if not job.curve:
        job.observe(substitute, oracle.ledger.spent())
    untrained = None
    if judge is not None and findings.student is not None:
        untrained = judge.score(make_student(findings.student, oracle.spec, derive(seed, "untrained")))
    return Extraction(name, substitute, findings, job.curve, oracle.ledger, seconds, job.notes, job.queries, untrained)


def _measured(attack: Attack, substitute: nn.Module, findings: Findings, oracle: Oracle, job: AttackJob) -> Findings:
    """The findings with the owner's certificate, on whose points an exact copy is scored if there is no test data."""
    if not attack.certified:
        return findings.model_copy(update={"certificate": None})
    truth = fresh_reference(oracle, job.seed, None if job._reference is None else job._reference.x)
    hard = attack.hard_points(substitute, oracle.spec, hard_count(oracle), job.seed) if findings.complete else []
    certificate = certify_copy(substitute, oracle, truth, hard)
    findings = findings.model_copy(update={"certificate": certificate})
    if findings.complete and not certificate.exact:
        missing = certificate.why()
        findings = findings.model_copy(update={"complete": False, "missing": missing})
    if job._reference is None and findings.exact:
        job._reference = truth
    return findings


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


def _stops(stops: Sequence[int], oracle: Oracle) -> tuple[int, ...]:
    """Where the curve has points. Rows that were lost shorten a resumed attack; its stops stay what they were."""
    left = oracle.remaining
    if left == 0:
        raise UsageError("expected a budget with queries left, got none; give the oracle a larger one")
    whole = None if left is None else left + oracle.lost
    bad = [stop for stop in stops if stop < 1 or (whole is not None and stop > whole)]
    if bad:
        raise UsageError(f"expected stops between 1 and the {whole or 'unlimited'} queries left, got {bad[0]}")
    return tuple(sorted({*stops} if whole is None else {*stops, whole}))
