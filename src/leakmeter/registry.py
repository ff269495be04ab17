"""Names to things, loaded only when asked for: `"dfme" -> "leakmeter.extraction.dfme:Dfme"`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, cast

from leakmeter.errors import UsageError

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` where something is near, else the empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ""


class Registry(Generic[T]):
    """A fixed set of names, each a `"module:attribute"` imported on first use."""

    def __init__(self, kind: str, places: dict[str, str]) -> None:
        self.kind = kind
        self._places = dict(places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> T:
        if name not in self._places:
            known = ", ".join(self._places)
            raise UsageError(f"unknown {self.kind} '{name}'{did_you_mean(name, self._places)} (known: {known})")
        module, _, attribute = self._places[name].partition(":")
        return cast(T, getattr(importlib.import_module(module), attribute))

    def add(self, name: str, place: str) -> None:
        """Registers a name from outside the package; taking a name already in use is an error."""
        if name in self._places:
            raise UsageError(f"the {self.kind} '{name}' exists already; choose another name")
        self._places[name] = place
