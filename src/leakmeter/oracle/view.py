"""What an API shows: `labels | top:K | probs | probs:D | logits`, each with `+EXPLANATION` where it explains itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.oracle.explanations import parse
from leakmeter.oracle.explanations.base import Explanation, Protection
from leakmeter.registry import did_you_mean
from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.victim import Responder

Kind = Literal["labels", "top", "probs", "logits"]
_KINDS = ("labels", "top", "probs", "logits")
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
    protections: tuple[Protection, ...] = ()
    """What is done to the explanation before it is shown, in this order."""

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
        return cls(kind, k, decimals, *(parse(explained) if plus else ()))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.base if self.explanation is None else f"{self.base}+{self.explained}"

    @property
    def base(self) -> str:
        """The text before the plus: the view without its explanation."""
        number = self.k if self.kind == "top" else self.decimals
        return self.kind if number is None else f"{self.kind}:{number}"

    @property
    def tells_logits(self) -> bool:
        """Whether answers give all logits up to a constant."""
        return self.kind == "logits" or (self.kind == "probs" and self.decimals is None)

    @property
    def explained(self) -> str:
        """The text behind the plus; empty without one."""
        return "/".join(map(str, (self.explanation or "", *self.protections)))

    def check(self, victim: Responder) -> None:
        """Refuses a view this victim cannot give."""
        spec, needs = victim.spec, _NEEDS[self.kind]
        if needs is not None and spec.outputs not in needs:
            raise NotApplicable(f"the view {self} needs a victim that returns {' or '.join(needs)}, got {spec.outputs}")
        if self.kind in ("probs", "top") and spec.classes == 1:
            raise NotApplicable(f"the view {self} needs two classes or more, got a single score; use logits or labels")
        if self.k is not None and self.k > spec.classes:
            raise UsageError(f"expected K of top:K to be at most {spec.classes} classes, got {self.k}")
        if self.explanation is not None:
            if self.read_off(victim):
                self._check_own(victim)
            else:
                self.explanation.check(victim)
            for protection in self.protections:
                protection.check(self.explanation, spec)

    def read_off(self, victim: Responder) -> bool:
        """Whether the explanation is the one that the victim's own answers hold."""
        own: OwnExplanation | None = getattr(victim, "own_explanation", None)
        if own is None or self.explanation is None:
            return False
        kind, protections = parse(own.kind)
        if protections or not kind.a_map:
            raise UsageError(f"expected the kind of an explanation that is a map, such as gradient, got '{own.kind}'")
        return kind == self.explanation

    def _check_own(self, victim: Responder) -> None:
        own: OwnExplanation = victim.own_explanation  # type: ignore[attr-defined]
        if own.of == "label" and not (self.kind == "labels" or self.k == 1 or victim.spec.classes == 1):
            raise NotApplicable(
                f"the victim {victim.spec.name} explains the class it names alone; ask through "
                f"'labels+{self.explained}' or 'top:1+{self.explained}', got '{self}'"
            )


def contains(view: str, other: str) -> bool:
    """Whether all that `other` shows can be read off `view`."""
    (base, _, explained), (less, _, asked) = view.partition("+"), other.partition("+")
    if not _base_contains(base, less):
        return False
    if asked in ("", explained) and (not asked or (base == "logits") == (less == "logits")):
        return True
    try:
        return bool(explained) and _explanation_contains(View.parse(view), View.parse(other))
    except UsageError:  # of a package that is not installed here
        return False


def _base_contains(base: str, less: str) -> bool:
    (kind, _, number), (less_kind, _, less_number) = base.partition(":"), less.partition(":")
    if less == "labels" or less == base or (kind == "logits" and less_kind in ("probs", "top")):
        return True
    if kind != less_kind:
        return base == "probs" and less_kind == "top"
    return number == "" or (number.isdigit() and less_number.isdigit() and int(less_number) <= int(number))


def _explanation_contains(view: View, other: View) -> bool:
    """Whether the explanation asked can be computed from the one shown, of the same scores or through softmax."""
    shown, asked = view.explanation, other.explanation
    if shown is None or asked is None:
        return asked is None
    if (view.kind == "logits") != (other.kind == "logits") and (view.protections or not shown.softmax_known):
        return False
    if shown == asked:
        return _protections_contain(view.protections, other.protections)
    return not view.protections and asked.name in shown.tells


def _protections_contain(shown: tuple[Protection, ...], asked: tuple[Protection, ...]) -> bool:
    """Whatever is shown can be hidden further; the K largest are among the more than K largest."""
    if asked[: len(shown)] == shown:
        return True
    *before, last = shown
    if len(asked) < len(shown) or list(asked[: len(before)]) != before:
        return False
    return last.at_least(asked[len(before)])


def _whole(text: str, what: str, least: int, most: int = 10**9) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise UsageError(f"expected {what} to be a whole number from {least} to {most}, got '{text}'")
    return int(text)
