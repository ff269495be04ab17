"""What a thief does with the copy: examples made on it, measured on the victim, beside its controls.

Only inputs the victim gets right count. A copy of 18 % accuracy can show 80 % "success" when eps is large: random noise
of the same norm, and a copy that learned nothing, show how much of that any perturbation would have had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.evaluation.intervals import Interval, exact
from leakmeter.evaluation.score import predict
from leakmeter.evasion.base import Evasion, evade
from leakmeter.evasion.goal import Goal, Target, aim
from leakmeter.oracle.oracle import Oracle
from leakmeter.progress import SILENT, Progress
from leakmeter.seeds import stream
from leakmeter.victims.spec import VictimSpec
from leakmeter.victims.victim import Victim

FULL_STRENGTH: dict[str, dict[str, Any]] = {"pgd": {"early_stop": False}}
"""An example that stops as soon as the copy is fooled is too weak to fool anybody else."""


class FlipRate(BaseModel):
    """The share of the victim's correct inputs that were flipped (targeted: to the target)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    n: int
    interval: Interval


class Transfer(BaseModel):
    """One attack made on a copy and measured on the victim."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attack: str
    norm: str
    eps: float | None
    targeted: bool
    copy_rate: FlipRate
    """Examples made on the copy."""
    noise_rate: FlipRate
    """Control: random noise, each as far from its original as the copy's example."""
    untrained_rate: FlipRate | None
    """Control: examples made on a network that learned nothing."""
    white_box_rate: FlipRate | None
    """The most one could do: examples made on the victim itself."""


@dataclass(frozen=True, eq=False)
class MeasuredTransfer:
    """The measured rates, with the examples behind them and the rows they were made from."""

    transfer: Transfer
    evasion: Evasion
    rows: Tensor


def measure_transfer(
    attack: str,
    copy: nn.Module,
    victim: Victim | Oracle,
    x: Tensor,
    y: Tensor,
    *,
    target: Target = None,
    untrained: nn.Module | None = None,
    white_box: nn.Module | Tensor | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
    **settings: Any,
) -> MeasuredTransfer:
    """Makes examples on `copy` and on the controls, and asks the victim (evaluation account) what it makes of them.

    Args:
        attack: an evasion attack that needs gradients.
        copy: the substitute, from inputs to logits.
        victim: the model, or the oracle in front of it whose evaluation account is charged.
        x: test inputs.
        y: their true classes.
        target: as for `evade`; "second" is the copy's second choice, the same for every control.
        untrained: a network that learned nothing, as a control.
        white_box: the victim's own network, for the upper bound, or what `examples_on` made on it from all of `x`.
        seed: of the attack and of the noise.
        progress: shown while attacks run.
        **settings: `norm`, `eps` and the attack's options.
    """
    oracle = victim if isinstance(victim, Oracle) else Oracle(victim, "labels")
    rows = (oracle.judge(x).labels == y.cpu()).nonzero()[:, 0]
    if len(rows) == 0:
        raise Inconclusive("the victim gets none of these inputs right, so none can be flipped; check the test labels")
    x, y = x[rows.to(x.device)], y[rows.to(y.device)]
    if isinstance(target, Tensor):
        target = target[rows.to(target.device)]
    goal = aim(y, target, predict(copy, x).to(y.device), oracle.spec.classes)
    wanted = goal.classes if goal.targeted else None

    def made_on(network: nn.Module) -> Evasion:
        return examples_on(network, attack, oracle.spec, x, y, target=wanted, seed=seed, progress=progress, **settings)

    strongest: Tensor | None = None
    if white_box is not None:
        strongest = white_box[rows] if isinstance(white_box, Tensor) else made_on(white_box).examples
    found = made_on(copy)
    transfer = Transfer(
        attack=attack,
        norm=found.norm,
        eps=found.eps,
        targeted=goal.targeted,
        copy_rate=_rate(oracle, goal, found.examples),
        noise_rate=_rate(oracle, goal, _noise(oracle, x, found, seed)),
        untrained_rate=None if untrained is None else _rate(oracle, goal, made_on(untrained).examples),
        white_box_rate=None if strongest is None else _rate(oracle, goal, strongest),
    )
    return MeasuredTransfer(transfer, found, rows)


def examples_on(network: nn.Module, attack: str, spec: VictimSpec, x: Tensor, y: Tensor, **settings: Any) -> Evasion:
    """Examples in the victim's box that are strong enough to fool others than the network they are made on."""
    return evade(
        attack, network, x, y, **{"low": spec.low, "high": spec.high, **FULL_STRENGTH.get(attack, {}), **settings}
    )


def _rate(oracle: Oracle, goal: Goal, examples: Tensor) -> FlipRate:
    flipped = goal.reached(oracle.judge(oracle.spec.clamp(examples)).labels.to(goal.classes.device))
    k, n = int(flipped.sum()), len(flipped)
    return FlipRate(value=k / n, n=n, interval=exact(k, n))


def _noise(oracle: Oracle, x: Tensor, found: Evasion, seed: int) -> Tensor:
    """Each input moved in a random direction by as much as the attack moved it, then into the box."""
    direction = torch.randn(x.shape, generator=stream(seed, "noise"), dtype=x.dtype).to(x.device)
    length = found.distance.to(x).reshape(-1, *[1] * (x.dim() - 1))
    if found.norm == "linf":
        return oracle.spec.clamp(x + length * direction.sign())
    if found.norm == "l2":
        return oracle.spec.clamp(x + length * direction / direction.flatten(1).norm(dim=1).reshape(length.shape))
    raise UsageError(f"expected the norm linf or l2, got '{found.norm}'")
