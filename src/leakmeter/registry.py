"""Names to things, loaded only when asked for: `"dfme" -> "leakmeter.extraction.dfme:Dfme"`.

An installed package adds names by entry points of the registry's group (`leakmeter.attacks`, `leakmeter.defenses`, …);
they are known wherever the package is installed: in a plan, on the command line, on every machine of a cluster.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, cast

from leakmeter.errors import UsageError, first_line

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` where something is near, else the empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ""


class Registry(Generic[T]):
    """Names, each a `"module:attribute"` imported on first use.

    Args:
        kind: what a name stands for, in error messages.
        places: the names this package brings.
        group: the entry-point group in which other packages add theirs; None: nobody does.
    """

    def __init__(self, kind: str, places: dict[str, str], group: str | None = None) -> None:
        self.kind = kind
        self._own, self._group = dict(places), group
        self._found: dict[str, str] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> T:
        if name not in self._places:
            known = ", ".join(self._places)
            raise UsageError(f"unknown {self.kind} '{name}'{did_you_mean(name, self._places)} (known: {known})")
        place = self._places[name]
        module, _, attribute = place.partition(":")
        try:
            return cast(T, getattr(importlib.import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            if name in self._own:
                raise
            raise UsageError(f"the {self.kind} '{name}' cannot be loaded from {place}: {first_line(error)}") from error

    def add(self, name: str, place: str) -> None:
        """Registers a name in this process; taking a name already in use is an error."""
        if name in self._places:
            raise UsageError(f"the {self.kind} '{name}' exists already; choose another name")
        self._own[name] = place

    @property
    def _places(self) -> dict[str, str]:
        if self._found is None:
            self._found = {} if self._group is None else _installed(self._group)
            taken = sorted(self._found.keys() & self._own.keys())
            if taken:
                place = self._found[taken[0]]
                raise UsageError(f"the {self.kind} '{taken[0]}' exists already, and {place} takes its name; rename it")
        return self._own | self._found


def _installed(group: str) -> dict[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=group)}
