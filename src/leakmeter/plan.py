"""What to audit and how: read from TOML, overridden by flags, checked key by key before anything is asked."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from leakmeter.errors import UsageError, first_line
from leakmeter.patience import PATIENCE
from leakmeter.settings import Settings, checked
from leakmeter.victims.preparation_settings import PreparationSettings
from leakmeter.victims.remote.settings import RemoteSettings


class VictimPlan(PreparationSettings):
    """The model, what cannot be read off it, and how its inputs are prepared."""

    source: str
    """`package.module:factory`, `file.py:factory`, a file of a network or of trees, or an address over HTTP."""
    input_shape: tuple[int, ...] | None = None
    low: float | tuple[float, ...] | None = None
    """One number, or one a feature; -inf: unbounded."""
    high: float | tuple[float, ...] | None = None
    classes: Annotated[int, Field(ge=1)] | tuple[str, ...] | None = None
    """How many, or what they are called."""
    outputs: Literal["logits", "probs", "labels"] | None = None
    output: str | None = None
    """Which output to read, where the model has several."""
    inputs: dict[str, Any] | None = None
    """Of an `.onnx` file with several inputs: what all but the one to attack hold."""
    sizes: dict[str, int] | None = None
    """Of an `.onnx` file that leaves sides of its input open: their sizes, such as H = 224."""
    remote: RemoteSettings | None = None
    """How to ask a victim over HTTP, and who allowed it."""

    def keywords(self) -> dict[str, Any]:
        """What to hand to `load_victim`: only what was given."""
        given = {key: value for key, value in self if key != "source" and value is not None}
        for side in ("low", "high"):
            if isinstance(given.get(side), float) and math.isinf(given[side]):
                given[side] = None
        return given


class DataPlan(Settings):
    """Test data, seen by the owner's scoring only."""

    name: str
    """A dataset's name, an `.npz`, `.csv` or `.parquet` file or an image folder."""
    target: str | None = None
    """Of a table: the column of classes; None: the only one that the model does not name, else none."""
    dir: str | None = None
    split: Literal["train", "test"] = "test"
    limit: int | None = Field(default=None, ge=1)
    """Use only this many test inputs, drawn at random."""


class AttackPlan(BaseModel):
    """An attack by name, with its own options beside it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    control: bool = False
    """An arm to compare with, not an attacker of the threat model."""

    @property
    def options(self) -> dict[str, Any]:
        """The attack's own hyper-parameters."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _known(self) -> AttackPlan:
        from leakmeter.extraction.base import make_attack

        make_attack(self.name, self.options)
        return self


class PricePlan(Settings):
    """What the API charges a query, and more for an explanation."""

    query: float = Field(default=0.0, ge=0)
    explanation: float = Field(default=0.0, ge=0)
    currency: str = "USD"


class FidelityLimit(Settings):
    """No attacker may reach more than `value` fidelity with `queries` queries."""

    queries: int = Field(ge=1)
    value: float = Field(gt=0, le=1)
    share: float | None = Field(default=None, gt=0, lt=1)
    """The largest share of a thief's tries that may reach it; None: no try that was made may, nor the mean over all."""


class CostFloor(Settings):
    """A copy of that fidelity must cost at least so many queries."""

    fidelity: float = Field(gt=0, le=1)
    queries: int = Field(ge=1)


class Policy(Settings):
    """What the owner will not accept; an empty policy accepts everything."""

    max_fidelity: FidelityLimit | None = None
    min_copy_cost: CostFloor | None = None


class HonestCost(Settings):
    """The most that a defense may cost honest users; what is not given may cost anything."""

    accuracy_loss: float | None = Field(default=None, ge=0, le=1)
    """Accuracy that they may lose."""
    distortion: float | None = Field(default=None, ge=0, le=1)
    """Probability that may be moved, on average (total variation)."""
    queries: int | None = Field(default=None, ge=1)
    """Queries that one client must be allowed at least."""

    def allows(self, accuracy_loss: float | None, distortion: float | None) -> bool:
        """Whether a defense may cost that; what was not measured is not allowed where there is a bound on it."""
        pairs = ((accuracy_loss, self.accuracy_loss), (distortion, self.distortion))
        return all(most is None or (paid is not None and paid <= most) for paid, most in pairs)


class TransferPlan(Settings):
    """What to try with the copy: adversarial examples made on it, measured on the victim."""

    attack: str = "pgd"
    norm: Literal["linf", "l2"] = "linf"
    eps: float | None = Field(default=None, gt=0)
    """The largest distance; None: a tenth of the box's width (linf)."""
    limit: int = Field(default=200, ge=1)
    """Test inputs to try."""


class CertifyPlan(Settings):
    """Certified accuracy of the model behind Gaussian smoothing; for models trained with such noise."""

    sigma: float = Field(default=0.5, gt=0)
    n: int = Field(default=1000, ge=1)
    """Votes an input."""
    alpha: float = Field(default=0.001, gt=0, lt=1)
    bound: Literal["tight", "renyi", "pixeldp"] = "tight"
    limit: int = Field(default=200, ge=1)
    """Test inputs to certify."""


class Cell(Settings):
    """One attack under one view and defense with one seed: the unit that runs, resumes and fails on its own."""

    id: str
    attack: str
    options: dict[str, Any]
    view: str
    defense: str
    seed: int
    budget: int
    stops: tuple[int, ...]
    control: bool = False
    transfer: TransferPlan | None = None
    utility: bool = False
    """Whether to measure what the defense costs honest users."""
    detectors: tuple[str, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """What a result repeats of its cell."""
        return self.model_dump(exclude={"stops", "transfer", "utility", "detectors"})


class Plan(Settings):
    """A whole audit."""

    name: str = "audit"
    victim: VictimPlan
    data: DataPlan | None = None
    columns: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Of a table: what each column holds, in the order of the model's inputs; empty: read off the data."""
    attacks: tuple[AttackPlan, ...] = ()
    """Empty: the attacks that suit the victim."""
    pool: str | None = None
    """Public data that a thief has: a dataset's name or path. Of a plan without attacks, one more arm asks it, too."""
    views: tuple[str, ...] = ("probs", "labels")
    explanations: tuple[str, ...] = ()
    """What showing each of them would cost: `["gradient", "reasons:4"]` beside every view that explains nothing."""
    defenses: tuple[str, ...] = ("none",)
    """`none`, `labels`, `top:3`, `rounding:2`, `noise:0.1`, `repeatable-noise:0.1`, `reverse-sigmoid:0.7,0.2`,
    `mad:0.8`, `mad-argmax:1`, `misinformation:0.9`, `modelguard-w:1`, `modelguard-s:1`, `smoothing:0.5,100`,
    `limit:500`; with `/adaptive` behind it the attacker knows the defense."""
    label_only: bool = True
    """Whether an attacker who uses labels alone is tried against every defense too, whatever the views."""
    detectors: tuple[str, ...] = ("prada",)
    """Replayed over each attack's queries: `prada`, or `prada:0.9` for another threshold."""
    budget: int = Field(default=5000, ge=1)
    total: int | None = Field(default=None, ge=1)
    """The most queries of all cells together, scoring among them; a cell that it leaves too little for fails. None: no
    more than each cell's budget."""
    stops: tuple[int, ...] = ()
    """Where the curve has points; empty: a doubling ladder up to the budget."""
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    """A first answer within a minute: one seed, few points of the curve, no transfer, no control arm."""
    minutes: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """About how long the learning may take on this machine: it sets the effort of attacks that name none. None: some
    minutes for a plan without attacks, else as long as they take."""
    pace: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How many times as long as attacks reckon this machine takes to learn, for `minutes` and the time told. None: a
    few steps are timed; a run keeps what they gave."""
    prices: PricePlan | None = None
    policy: Policy = Policy()
    honest: HonestCost = HonestCost()
    """What a recommended defense may cost honest users."""
    transfer: TransferPlan | None = None
    """None: not tried."""
    certify: CertifyPlan | None = None
    """None: nothing is certified."""
    queries_per_day: int | None = Field(default=None, ge=1)
    """The rate limit in force, for the advice in the verdict."""
    patience: float = Field(default=PATIENCE, gt=0, allow_inf_nan=False)
    """Seconds that a victim in this process may take for one answer, and a worker may give no sign of life."""
    log: dict[str, Any] = Field(default_factory=dict)
    """How `leakmeter watch` reads an access log; an audit has no use for it."""
    device: str = "cpu"
    threads: int = Field(default=1, ge=1, le=4096)
    """Torch threads a cell computes with: weights are the same bit for bit only for the same number."""

    @field_validator("columns")
    @classmethod
    def _columns(cls, columns: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        from leakmeter.data.columns import Columns

        return Columns.parse(columns).section() if columns else {}

    @field_validator("views", "explanations")
    @classmethod
    def _views(cls, texts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        from leakmeter.oracle.view import View

        if info.field_name == "explanations":
            return tuple(View.parse(f"probs+{text}").explained for text in texts)
        return tuple(str(View.parse(text)) for text in texts)

    @field_validator("defenses")
    @classmethod
    def _defenses(cls, defenses: tuple[str, ...]) -> tuple[str, ...]:
        from leakmeter.defenses import canonical

        return tuple(canonical(defense) for defense in defenses)

    @field_validator("detectors")
    @classmethod
    def _detectors(cls, detectors: tuple[str, ...]) -> tuple[str, ...]:
        from leakmeter.detectors import make_detector

        for detector in detectors:
            make_detector(detector)
        return detectors

    @model_validator(mode="after")
    def _stops_fit(self) -> Plan:
        bad = [stop for stop in self.stops if not 0 < stop <= self.budget]
        if bad:
            raise ValueError(f"expected stops between 1 and the budget of {self.budget}, got {bad[0]}")
        if self.pool is not None and self.attacks:
            raise ValueError("expected no attacks beside pool, which is for a plan without; give pool to the attack")
        if not self.seeds or not self.views or not self.defenses:
            raise ValueError("expected at least one seed, one view and one defense")
        for name in ("seeds", "views", "defenses"):  # twice the same cell is no second try
            values = getattr(self, name)
            if again := [value for place, value in enumerate(values) if value in values[:place]]:
                raise ValueError(f"expected each of {name} once, got {again[0]} more often")
        return self

    def ladder(self) -> tuple[int, ...]:
        """The stops of the curve: those given, or the budget, its third and ninth, and powers of eight from 1 up.

        Explanations are compared by where curves cross a level, mostly after few queries: there the powers are of four.
        """
        if self.stops:
            return tuple(sorted({*self.stops, self.budget}))
        thirds = {max(1, self.budget // 3**k) for k in range(3)}
        step = 4 if self.explanations else 8
        below = {step**k for k in range(12) if step**k <= min(thirds) // 4}
        return tuple(sorted(thirds | below | {1}))

    @property
    def explained_views(self) -> tuple[str, ...]:
        """The views that explain nothing, each with each of the explanations to be compared."""
        asked = {f"{view}+{each}": 0 for view in self.views if "+" not in view for each in self.explanations}
        return tuple(view for view in asked if view not in self.views)

    def cells(self) -> Iterator[Cell]:
        """Every combination that tells something of its own, in the order they run. Ids name folders.

        `explanations` are for attacks that read any. A control has the first seed only, and the last stop: the time is
        better spent on attackers. An attack that reads labels alone is not asked the same again where more is shown:
        what it gets counts there anyway (`verdict/closure.py`).
        """
        from leakmeter.extraction.base import ATTACKS
        from leakmeter.oracle.view import contains

        views, explained = (*self.views, *self.explained_views), set(self.explained_views)
        surfaces = [(view, defense) for defense in self.defenses for view in views]
        surfaces += self._label_only()
        for view, defense in surfaces:
            poorest = not any(behind == defense and less != view and contains(view, less) for less, behind in surfaces)
            for number, attack in enumerate(self.attacks):
                kind = ATTACKS[attack.name]
                reads = view not in explained or (kind.reads(view) and not attack.control)
                if reads and (poorest or not kind.reads_labels_only):
                    for seed in self.seeds[:1] if attack.control else self.seeds:
                        yield self._cell(number, attack, view, defense, seed)

    def _label_only(self) -> list[tuple[str, str]]:
        """Where labels alone have to be tried, so that no defense reads safer than they are.

        Where a defense keeps the label, labels are worth what they are without it.
        """
        from leakmeter.defenses import NONE, parse

        spoiling = [parse(text)[0] for text in self.defenses]
        spoiling = [defense for defense in spoiling if defense.name != NONE and defense.most_queries is None]
        bare = NONE in self.defenses
        where = [NONE if defense.keeps_label and bare else str(defense) for defense in spoiling]
        covered = "labels" in self.views or not self.label_only
        return [] if covered else [("labels", text) for text in dict.fromkeys(where)]

    def _stops_behind(self, defense: str) -> tuple[int, ...]:
        """The ladder as far as a limit lets one climb."""
        from leakmeter.defenses import parse

        most = min(self.budget, parse(defense)[0].most_queries or self.budget)
        return (*(stop for stop in self.ladder() if stop < most), most)

    def _cell(self, number: int, attack: AttackPlan, view: str, defense: str, seed: int) -> Cell:
        parts = (f"{number}-{attack.name}", view, defense, f"seed{seed}")
        safe = "_".join("".join(c if c.isalnum() or c in "-." else "-" for c in part) for part in parts)
        stops = self._stops_behind(defense)
        if attack.control:
            stops = stops[-1:]
        return Cell(
            id=safe,
            attack=attack.name,
            options=attack.options,
            view=view,
            defense=defense,
            seed=seed,
            budget=stops[-1],
            stops=stops,
            control=attack.control,
            transfer=self.transfer,
            utility=self.defenses != ("none",),
            detectors=self.detectors,
        )


_FLAGS = {
    "victim": "--victim, such as --victim model.onnx",
    "victim.source": "--victim, such as --victim model.onnx",
    "data.name": "--data, such as --data holdout.npz",
}


def make_plan(content: dict[str, Any]) -> Plan:
    """A checked plan, or one sentence about the first thing wrong with it."""
    try:
        return checked(Plan, content, "the plan", "key")
    except UsageError as error:
        hint = next((hint for key, hint in _FLAGS.items() if str(error) == f"the plan lacks '{key}'"), None)
        raise error if hint is None else UsageError(f"{error}; on the command line {hint}") from None


def read_plan(path: Path) -> dict[str, Any]:
    """The content of a TOML plan, not yet checked: flags may still override it."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise UsageError(f"there is no plan {path}; write one with: leakmeter init {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the plan {path}: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the plan {path} is not TOML: {first_line(error)}") from error
