"""The one record of results: what Python returns, what the command line writes, what every report is built from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from leakmeter.errors import UsageError
from leakmeter.evaluation.intervals import Interval
from leakmeter.evaluation.score import ClassScore, Score
from leakmeter.evaluation.transfer import Transfer
from leakmeter.evaluation.tries import Tries
from leakmeter.extraction.base import CurvePoint
from leakmeter.extraction.findings import Findings
from leakmeter.settings import Settings, explain

SCHEMA_VERSION = 2
"""2: cells have findings; those of version 1 have none."""


class Spending(Settings):
    """What a cell cost, by account."""

    queries: int
    explanations: int = 0
    work: int = 0
    cached: int = 0
    unconfirmed: int = 0
    evaluation: int = 0
    money: float | None = None


class Certified(Settings):
    """Accuracy of the smoothed model that no perturbation within a radius can lower."""

    label: str
    norm: str = "l2"
    n: int
    """Test inputs."""
    alpha: float
    """How often the certificate of one input may be wrong."""
    points: list[tuple[float, float]]
    """Radius, certified accuracy."""
    intervals: list[Interval] = Field(default_factory=list)
    """For each radius: the share of all inputs that is certified; its lower end allows for wrong certificates too."""


class CellResult(Settings):
    """One attack under one view and defense with one seed."""

    id: str
    attack: str
    options: dict[str, Any] = Field(default_factory=dict)
    view: str
    defense: str = "none"
    seed: int
    budget: int
    control: bool = False
    """Whether this arm is there to be compared with, not an attacker of the threat model."""
    status: Literal["done", "failed", "skipped"]
    error: str = ""
    curve: list[CurvePoint] = Field(default_factory=list)
    findings: Findings | None = None
    """What the attack found: of a cell's facts the verdict reads these, never the notes."""
    untrained: Score | None = None
    """The control every cell carries: a substitute that learned nothing."""
    repeatable: bool | None = None
    """Whether the victim answered the same inputs alike when asked twice."""
    saturated: float | None = None
    """The share of the victim's probabilities on test data that are 0 or 1."""
    class_scores: list[ClassScore] = Field(default_factory=list)
    """How the final copy agrees on each class, in their order; empty: not measured."""
    transfer: Transfer | None = None
    """What adversarial examples made on the copy do to the victim."""
    transfer_error: str = ""
    """Why that was not measured though the plan asked for it; the copy is not touched by it."""
    spending: Spending | None = None
    seconds: float = 0.0
    notes: dict[str, Any] = Field(default_factory=dict)

    @property
    def final(self) -> CurvePoint | None:
        """The last point of the curve: the substitute that is reported."""
        return self.curve[-1] if self.curve else None


class VictimFacts(Settings):
    """What the report says about the model."""

    name: str
    input_shape: tuple[int, ...]
    classes: int
    outputs: str
    accuracy: float | None = None
    test: str = ""
    test_size: int = 0
    authorized_by: str | None = None
    """Who allowed the audit of a model on another machine."""
    class_names: list[str] = Field(default_factory=list)
    """What the classes are called, in their order; empty: they have only numbers."""
    notes: list[str] = Field(default_factory=list)
    """How it was asked and what was assumed of it."""


class CopyCost(Settings):
    """Queries to reach a fidelity: by the attack on average, and by the best of the tries made."""

    fidelity: float
    queries: int | None
    """The first point of the curve at which the mean over seeds reaches it; None: not within the budget."""
    low: int | None
    """The fewest queries that the attack may take on average, over all seeds and inputs."""
    high: int | None
    """The most; None: these seeds set no upper end."""
    made: int | None = None
    """The fewest queries with which a copy was made that surely has it; None: no try did."""
    made_low: int = 1
    """With fewer than this surely none of the tries had it."""
    below: int = 0
    """The most queries at which a copy was measured, with no try at the fidelity up to there."""
    tries: Tries | None = None
    """How many tries reached it with the whole budget."""

    @property
    def short(self) -> int:
        """With so many queries no try measured it: what advice about limits rests on."""
        return max(self.below, self.made_low - 1)

    @property
    def cheapest(self) -> int | None:
        """By the best try made; results of before tries were kept have only the mean."""
        return self.queries if self.tries is None else self.made


class Arm(Settings):
    """All seeds of one attack under one view and defense."""

    attack: str
    label: str
    view: str
    defense: str
    control: bool
    seeds: int
    queries: int
    fidelity: float
    """Mean over the copies made, one a seed."""
    fidelity_interval: Interval
    """What the attack reaches on average, over all seeds and inputs: wide where there are few seeds."""
    copies: list[list[float]] = Field(default_factory=list)
    """For each point of the curve the fidelity of each seed's copy."""
    inputs: int = 0
    """Test inputs behind each of them, the same for all."""
    copies_interval: Interval | None = None
    """The mean of these copies on all inputs; what other seeds would give it does not say."""
    accuracy: float | None
    constant: float | None = None
    """Fidelity of the best copy that always names one class."""
    majority: float | None = None
    """Fidelity of the copy that always names the commonest true label: it costs no query."""
    balanced: float | None = None
    """Mean over the copies of their fidelity with every class counted once."""
    worst: float | None = None
    """Mean over the copies of their fidelity in the class each knows least."""
    unnamed: int = 0
    """Classes that the model names and none of the copies ever does."""
    whole: bool = False
    """Whether some try holds the whole model: the attack says so and the owner's measurement agrees."""
    curve: list[tuple[int, float, float, float]]
    """Queries, mean fidelity, and the interval of what the attack reaches on average."""
    costs: list[CopyCost]

    @model_validator(mode="after")
    def _copies_fit(self) -> Arm:
        if self.copies and (len(self.copies) != len(self.curve) or not all(self.copies)):
            raise ValueError("expected 'copies' with the copies of every point of 'curve'")
        return self


class Check(Settings):
    """A soundness check of the audit itself."""

    name: str
    ok: bool
    message: str
    raised_if: str = ""
    """When this check fails, in words."""
    means: str = ""
    """What a failure says about the numbers."""


class Ruling(Settings):
    """One line of the policy, decided."""

    rule: str
    outcome: Literal["pass", "exceeded", "undecided"]
    message: str


class Remedy(Settings):
    """A view, a defense and a limit with which the policy holds, against every attacker that was tried."""

    view: str
    defense: str
    limit: int | None
    """The most queries one client may get; None: no limit is needed."""
    doubt: str = ""
    """Why it is not sure, though no copy that was made is above a line; empty: it is."""
    fidelity: float
    """Of the best copy made in spite of it."""
    interval: Interval
    """Where that copy lies on all inputs, all copies looked at."""
    attack: str
    """Who made it."""
    knowing: bool
    """Whether attackers who know the defense were among them, or there is nothing to know."""
    accuracy_loss: float | None
    """What honest users pay: accuracy,"""
    distortion: float | None
    """and probability moved."""
    agreement: Interval | None
    """How often they get the label they would get without it."""


class Recommendation(Settings):
    """What would make the policy hold, of everything that was tried."""

    remedies: list[Remedy]
    """Within the allowed cost for honest users, cheapest first; empty: none that was tried."""
    too_dear: list[Remedy] = Field(default_factory=list)
    """Those that hold and cost more than is allowed."""
    tried: int
    """Views and defenses that were looked at."""


class Verdict(Settings):
    """The answer, in plain words first."""

    outcome: Literal["pass", "measured", "exceeded", "undecided"]
    """measured: there is no policy to pass; results of before there was this say pass."""
    headline: str
    sentences: list[str]
    arms: list[Arm]
    rulings: list[Ruling]
    checks: list[Check]
    recommendation: Recommendation | None = None
    """None: there is no policy, or the results are of before there was this."""


class AuditResult(Settings):
    """Everything an audit found. `results.json` is this, and nothing else."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=1, le=SCHEMA_VERSION)
    created: str
    plan: dict[str, Any]
    environment: dict[str, Any]
    victim: VictimFacts
    cells: list[CellResult]
    certified: Certified | None = None
    verdict: Verdict

    @model_validator(mode="after")
    def _classes_fit(self) -> AuditResult:
        if len({len(cell.class_scores) for cell in self.cells if cell.class_scores}) > 1:
            raise ValueError("expected 'class_scores' of equal length in all cells")
        return self

    @classmethod
    def read(cls, path: Path) -> AuditResult:
        """Reads `results.json` from a file or a run directory."""
        path = path / "results.json" if path.is_dir() else path
        try:
            return cls.model_validate_json(path.read_text())
        except FileNotFoundError as error:
            raise UsageError(f"there is no {path}; the run may not be finished: go on with --resume") from error
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from error
        except ValidationError as error:
            raise UsageError(
                explain(error, cls, f"{path}, which should be of schema {SCHEMA_VERSION},", "key")
            ) from error

    @property
    def exit_code(self) -> int:
        """0 pass or measured, 3 policy exceeded, 4 inconclusive."""
        return {"pass": 0, "measured": 0, "exceeded": 3, "undecided": 4}[self.verdict.outcome]
