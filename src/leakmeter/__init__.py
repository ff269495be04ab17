"""leakmeter measures how much of a machine-learning model leaks through its API."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakmeter._audit.flow import audit as audit
    from leakmeter.certificates.smoothing import certify as certify
    from leakmeter.errors import BudgetExhausted as BudgetExhausted
    from leakmeter.errors import LeakmeterError as LeakmeterError
    from leakmeter.errors import UsageError as UsageError
    from leakmeter.evaluation.score import score as score
    from leakmeter.evasion.base import evade as evade
    from leakmeter.extraction.base import extract as extract
    from leakmeter.oracle.oracle import Oracle as Oracle
    from leakmeter.training.train import train as train
    from leakmeter.victims.load import load_victim as load_victim

__version__ = "0.2.0"

# Imported on first use: `leakmeter --help` must not wait for torch.
_PLACES = {
    "audit": "leakmeter._audit.flow",
    "certify": "leakmeter.certificates.smoothing",
    "BudgetExhausted": "leakmeter.errors",
    "LeakmeterError": "leakmeter.errors",
    "UsageError": "leakmeter.errors",
    "score": "leakmeter.evaluation.score",
    "evade": "leakmeter.evasion.base",
    "extract": "leakmeter.extraction.base",
    "Oracle": "leakmeter.oracle.oracle",
    "train": "leakmeter.training.train",
    "load_victim": "leakmeter.victims.load",
}
__all__ = [*_PLACES, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'leakmeter' has no attribute '{name}'")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
