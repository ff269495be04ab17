"""Adversarial examples: `evade` sets an attack its problem and measures what comes back.

An attack's own claim is never believed. Whatever it returns is moved into ball and box and asked about again:

- every example lies inside the box, exactly;
- its distance from the original, computed in double precision, is at most `eps`;
- `success` is what the model says of the example as returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from leakmeter.box import ROUNDING, Box, Edge
from leakmeter.errors import UsageError
from leakmeter.evasion.access import Access, OracleLabels, WhiteBox
from leakmeter.evasion.attack import Candidates, EvasionAttack, Problem
from leakmeter.evasion.ball import BALLS, Ball, Norm, settle
from leakmeter.evasion.goal import Target, aim
from leakmeter.oracle.oracle import Oracle
from leakmeter.progress import SILENT, Progress
from leakmeter.registry import Registry
from leakmeter.seeds import derive, private_randomness
from leakmeter.settings import checked

ATTACKS: Registry[type[EvasionAttack[Any]]] = Registry(
    "evasion attack",
    {
        "fgsm": "leakmeter.evasion.fgsm:Fgsm",
        "bim": "leakmeter.evasion.bim:Bim",
        "mifgsm": "leakmeter.evasion.mifgsm:MiFgsm",
        "pgd": "leakmeter.evasion.pgd:Pgd",
        "cw": "leakmeter.evasion.cw:CarliniWagner",
        "boundary": "leakmeter.evasion.boundary:Boundary",
    },
)


@dataclass(frozen=True, eq=False)
class Evasion:
    """Adversarial examples, and what was measured on them."""

    attack: str
    norm: Norm
    eps: float | None
    examples: Tensor
    success: Tensor
    """Which examples the model gets wrong (targeted: takes for the target)."""
    distance: Tensor
    """How far each example is from its original, in `norm`; where the attack failed, that of its best try."""
    reasons: tuple[str | None, ...]
    """Why an example failed; None where it succeeded."""
    queries: int
    """Rows the attack asked of an oracle; 0 with the module at hand."""

    @property
    def rate(self) -> float:
        """The fraction that succeeded; of an untargeted attack, 1 minus the robust accuracy."""
        return self.success.double().mean().item()


def evade(
    name: str,
    model: nn.Module | Oracle,
    x: Tensor,
    y: Tensor,
    *,
    norm: Norm | None = None,
    eps: float | None = None,
    target: Target = None,
    seed: int = 0,
    low: Edge = 0.0,
    high: Edge = 1.0,
    eot: int = 1,
    batch: int = 256,
    progress: Progress = SILENT,
    **options: object,
) -> Evasion:
    """Looks for inputs near `x` that the model gets wrong.

    Args:
        name: one of `ATTACKS`.
        model: a module from inputs to logits; for `boundary` also an oracle, of which only labels are used.
        x: the originals, inside the box.
        y: their true classes.
        norm: `"linf"` or `"l2"`; by default linf, and l2 for `cw` and `boundary`, which know no other.
        eps: the largest distance allowed; where it is None, `cw` and `boundary` look for the nearest example.
        target: a class, one class an example, or `"second"` (the likeliest class but the true one); None: any error.
        seed: seeds everything drawn, the model's own noise included. The global generators stay as they are.
        low: the smallest value of a feature, a number or one a feature; None: no limit. An oracle brings its own.
        high: the largest.
        eot: how many draws of a randomised model are averaged into each of its predictions and gradients.
        batch: rows the module sees at once.
        progress: shown while the attack runs.
        options: hyper-parameters of the attack.
    """
    attack = checked(ATTACKS[name], options, name)
    norm = _checked_norm(name, attack, norm, eps)
    access = _reach(name, attack, model, eot, batch)
    if isinstance(model, Oracle):
        low, high = model.spec.low, model.spec.high
    _check_shapes(x, y)
    with access.opened():
        x, y = access.admit(x.detach().clone()), y.clone()
        box = Box.around(x, low, high)
        x = box.admit(x, ROUNDING)
        ball = BALLS[norm].around(x, math.inf if eps is None else eps, box)
        before = access.spent()
        with private_randomness(derive(seed, "evade"), x.device):
            look = access.look(x)
            goal = aim(y.to(x.device), target, look.logits, look.classes)
            candidates = Candidates(x) if eps == 0 else attack.run(Problem(access, x, goal, ball, seed, progress))
        examples = settle(ball, candidates.examples)
        spent = access.spent() - before
        with private_randomness(derive(seed, "measure"), x.device):
            success = goal.reached(access.judge(examples))
    return Evasion(
        attack=name,
        norm=norm,
        eps=eps,
        examples=examples,
        success=success,
        distance=ball.distance(examples),
        reasons=_reasons(candidates, success, ball, norm),
        queries=spent,
    )


def _checked_norm(name: str, attack: EvasionAttack[Any], norm: Norm | None, eps: float | None) -> Norm:
    norm = attack.norms[0] if norm is None else norm
    if norm not in attack.norms:
        raise UsageError(f"expected norm {' or '.join(attack.norms)} for {name}, got '{norm}'")
    if eps is None and attack.needs_eps:
        raise UsageError(f"{name} works within a distance; pass eps, for example eps=0.1")
    if eps is not None and not 0 <= eps < math.inf:
        raise UsageError(f"expected eps of at least 0, got {eps}")
    return norm


def _reach(name: str, attack: EvasionAttack[Any], model: nn.Module | Oracle, eot: int, batch: int) -> Access:
    if eot < 1 or batch < 1:
        raise UsageError(f"expected eot and batch of at least 1, got eot={eot} and batch={batch}")
    if isinstance(model, nn.Module):
        return WhiteBox(model, eot, batch)
    if not isinstance(model, Oracle):
        raise UsageError(f"expected a torch module or an Oracle, got {type(model).__name__}")
    if attack.needs_gradients:
        raise UsageError(f"{name} needs gradients and an oracle has none; use 'boundary', or attack a substitute")
    return OracleLabels(model)


def _check_shapes(x: Tensor, y: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise UsageError(f"expected floating-point inputs, got {x.dtype}; convert them, for example with x.float()")
    if x.dim() < 2 or len(x) == 0 or y.shape != (len(x),):
        got = f"{tuple(x.shape)} and {tuple(y.shape)}"
        raise UsageError(f"expected inputs of shape (n, ...) and n labels, n above 0, got shapes {got}")


def _reasons(candidates: Candidates, success: Tensor, ball: Ball, norm: Norm) -> tuple[str | None, ...]:
    found = ball.distance(candidates.examples).tolist()
    limit = f"{norm} {ball.eps:g}"

    def reason(row: int) -> str:
        if row in candidates.reasons:
            return candidates.reasons[row]
        if found[row] > ball.eps * (1 + 1e-6):
            return f"the nearest example found is at {norm} {found[row]:.4g}, beyond {limit}"
        return f"the goal was not reached within {limit}"

    return tuple(None if won else reason(row) for row, won in enumerate(success.tolist()))
