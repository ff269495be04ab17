"""What an API shows: `labels | top:K | probs | probs:D | logits`, each with `+gradient` or `+smoothgrad:N,SIGMA`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.registry import did_you_mean
from leakmeter.victims.spec import VictimSpec

Kind = Literal["labels", "top", "probs", "logits"]
Explanation = Literal["gradient", "smoothgrad"]
_KINDS = ("labels", "top", "probs", "logits")
_EXPLANATIONS = ("gradient", "smoothgrad")
_MOST_DECIMALS = 17  # as many as float64 can tell apart; from 10**39 on float32 overflows
_NEEDS = {"logits": ("logits",), "probs": ("logits", "probs"), "top": ("logits", "probs"), "labels": None}


@dataclass(frozen=True)
class View:
    """One way to show answers. `str(view)` is the text that `View.parse` reads."""

    kind: Kind
    k: int | None = None
    """`top:K`: how many classes are shown."""
    decimals: int | None = None
    """`probs:D`: how many decimals are kept."""
    explanation: Explanation | None = None
    samples: int = 10
    """SmoothGrad: how many noisy gradients the server averages."""
    sigma: float = 0.1
    """SmoothGrad: the noise, as a fraction of the box's width (absolute where the box is open)."""

    @classmethod
    def parse(cls, text: str) -> View:
        """Reads a view, or says what a view looks like."""
        base, plus, explained = text.partition("+")
        kind, _, number = base.partition(":")
        if kind not in _KINDS:
            raise UsageError(f"unknown view '{text}'{did_you_mean(kind, _KINDS)} (known: {', '.join(_KINDS)})")
        if bool(number) != (":" in base) or (kind in ("labels", "logits") and number) or (kind == "top" and not number):
            raise UsageError(f"expected labels, top:K, probs, probs:D or logits, got '{base}'")
        k = _whole(number, "K of top:K", 1) if kind == "top" else None
        decimals = _whole(number, "D of probs:D", 0, most=_MOST_DECIMALS) if kind == "probs" and number else None
        if not plus:
            return cls(kind, k, decimals)  # type: ignore[arg-type]
        name, colon, options = explained.partition(":")
        if name not in _EXPLANATIONS or (name == "gradient" and colon):
            raise UsageError(f"expected +gradient or +smoothgrad:N,SIGMA, got '+{explained}'")
        if not colon:
            return cls(kind, k, decimals, name)  # type: ignore[arg-type]
        found = re.fullmatch(r"(\d+),([0-9.]+(?:e[+-]?\d+)?)", options)
        if found is None:
            raise UsageError(f"expected +smoothgrad:N,SIGMA such as +smoothgrad:10,0.1, got '+{explained}'")
        samples, sigma = _whole(found[1], "N of +smoothgrad", 1), _positive(found[2])
        return cls(kind, k, decimals, name, samples, sigma)  # type: ignore[arg-type]

    def __str__(self) -> str:
        number = self.k if self.kind == "top" else self.decimals
        base = self.kind if number is None else f"{self.kind}:{number}"
        if self.explanation is None:
            return base
        return (
            f"{base}+gradient" if self.explanation == "gradient" else f"{base}+smoothgrad:{self.samples},{self.sigma!r}"
        )

    def check(self, spec: VictimSpec, *, differentiable: bool) -> None:
        """Refuses a view this victim cannot give."""
        needs = _NEEDS[self.kind]
        if needs is not None and spec.outputs not in needs:
            raise NotApplicable(f"the view {self} needs a victim that returns {' or '.join(needs)}, got {spec.outputs}")
        if self.kind in ("probs", "top") and spec.classes == 1:
            raise NotApplicable(f"the view {self} needs two classes or more, got a single score; use logits or labels")
        if self.k is not None and self.k > spec.classes:
            raise UsageError(f"expected K of top:K to be at most {spec.classes} classes, got {self.k}")
        if self.explanation is not None and (not differentiable or spec.outputs == "labels"):
            raise NotApplicable(f"the view {self} needs a differentiable victim: an nn.Module or a .pt2 file")


def _whole(text: str, what: str, least: int, most: int = 10**9) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise UsageError(f"expected {what} to be a whole number from {least} to {most}, got '{text}'")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"expected SIGMA of +smoothgrad to be a positive number, got '{text}'")
    return value
