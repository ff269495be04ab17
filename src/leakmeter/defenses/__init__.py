"""What an owner can put between the model and the API: each wraps a responder and is one.

A defense is written as its name and its numbers: `rounding:2`, `reverse-sigmoid:0.7,0.2`. With `/adaptive` behind it,
the attacker knows the defense and undoes what one answer lets it undo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leakmeter.errors import NotApplicable, UsageError
from leakmeter.registry import Registry
from leakmeter.settings import from_text

if TYPE_CHECKING:
    from leakmeter.defenses.base import Defense
    from leakmeter.oracle.answer import Answer
    from leakmeter.victims.victim import Responder

NONE = "none"
ADAPTIVE = "/adaptive"
DEFENSES: Registry[type[Defense]] = Registry(
    "defense",
    {
        NONE: "leakmeter.defenses.none:Nothing",
        "labels": "leakmeter.defenses.labels:Labels",
        "top": "leakmeter.defenses.top:Top",
        "rounding": "leakmeter.defenses.rounding:Rounding",
        "noise": "leakmeter.defenses.noise:Noise",
        "reverse-sigmoid": "leakmeter.defenses.reverse_sigmoid:ReverseSigmoid",
        "smoothing": "leakmeter.defenses.smoothing:Smoothing",
        "mad": "leakmeter.defenses.mad:Mad",
        "mad-argmax": "leakmeter.defenses.mad:MadArgmax",
        "misinformation": "leakmeter.defenses.misinformation:Misinformation",
        "modelguard-w": "leakmeter.defenses.modelguard_w:ModelGuardW",
        "modelguard-s": "leakmeter.defenses.modelguard_s:ModelGuardS",
        "repeatable-noise": "leakmeter.defenses.repeatable_noise:RepeatableNoise",
        "limit": "leakmeter.defenses.limit:Limit",
    },
    group="leakmeter.defenses",
)


def defend(text: str, victim: Responder) -> Responder:
    """The victim behind the defense called `text`."""
    return parse(text)[0].around(victim)


def undoing(text: str, view: str) -> Callable[[Answer], Answer] | None:
    """What an attacker makes of each answer under `view`; None unless `text` ends in `/adaptive`."""
    defense, adaptive = parse(text)
    if not adaptive:
        return None
    if view != "probs":
        raise NotApplicable(f"undoing {defense} takes all probabilities as they are: the view probs, not {view}")
    return defense.undo


def canonical(text: str) -> str:
    """The one way to write the defense `text`."""
    defense, adaptive = parse(text)
    return f"{defense}{ADAPTIVE if adaptive else ''}"


def parse(text: str) -> tuple[Defense, bool]:
    """The defense, and whether the attacker knows it."""
    plain = text.removesuffix(ADAPTIVE)
    defense = from_text(DEFENSES, plain)
    if plain != text and not defense.undoable:
        raise UsageError(f"the defense {defense} leaves nothing to undo; write '{defense}' instead of '{text}'")
    return defense, plain != text
