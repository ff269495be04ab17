"""What an owner can put between the model and the API: each wraps a responder and is one."""

from __future__ import annotations

from collections.abc import Callable

from leakmeter.registry import Registry
from leakmeter.victims.victim import Responder

NONE = "none"
DEFENSES: Registry[Callable[..., Responder]] = Registry("defense", {NONE: "leakmeter.defenses.none:none"})


def defend(text: str, victim: Responder) -> Responder:
    """The victim behind the defense called `text`."""
    return DEFENSES[text](victim)
