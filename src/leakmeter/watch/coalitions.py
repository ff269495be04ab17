"""Clients that may be one: by the owner's column, by network, and by how alike they ask.

Likeness alone proves nothing among those who ask as honest users do: these all ask alike. So clients are put together
by likeness only where their queries differ from honest ones of the same classes; thieves who ask natural data are not
found this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakmeter.detectors.likeness import Cloud, chance_alike, distance
from leakmeter.watch.state import State

By = Literal["client", "group", "network", "likeness"]
_STRANGE, _ALIKE = 1e-6, 1e-3  # chances below which queries differ from honest ones, and above which two ask alike
_NEARER = 0.1  # two that ask alike are nearer to each other than this part of what parts them from honest ones
_NAMED = 3


@dataclass(frozen=True)
class Coalition:
    """Clients to be looked at as one."""

    clients: tuple[str, ...]
    by: By
    label: str


def told_coalitions(state: State, honest: tuple[str, ...], least: int, most: int) -> list[Coalition]:
    """By the columns of the log: two clients or more that share a value and together have enough queries."""
    found = []
    columns: tuple[tuple[By, str], ...] = (("group", "grp"), ("network", "net"))
    for by, column in columns:
        rows = state.connection.execute(
            f"SELECT {column}, list(DISTINCT client ORDER BY client) FROM queries WHERE {column} IS NOT NULL "
            "AND NOT honest AND NOT list_contains(?, client) "
            f"GROUP BY {column} HAVING count(DISTINCT client) > 1 AND approx_count_distinct(asked) >= ? "
            f"ORDER BY approx_count_distinct(asked) DESC, {column} LIMIT ?",
            [list(honest), least, most],
        ).fetchall()
        found += [Coalition(tuple(clients), by, f"{by} {value}") for value, clients in rows]
    return found


@dataclass(eq=False)
class _Group:
    """Clients that ask alike, and how far the nearest of them is from honest ones."""

    clients: list[str]
    cloud: Cloud
    far: float


def alike_coalitions(clients: dict[str, tuple[Cloud, Cloud]]) -> list[Coalition]:
    """By likeness: each client joins the first group that asks, taken together, as it does.

    Args:
        clients: of each what it asked, and what honest clients ask in the same classes; the most worth first.
    """
    groups: list[_Group] = []
    for name, (asked, usual) in clients.items():
        if asked.n < 2 or chance_alike(asked, usual) >= _STRANGE:
            continue
        alone = _Group([name], asked, distance(asked, usual))
        home = next((group for group in groups if _alike(group, alone)), None)
        if home is None:
            groups.append(alone)
        else:
            home.clients.append(name)
            home.cloud, home.far = home.cloud.with_(asked), min(home.far, alone.far)
    found = [sorted(group.clients) for group in groups if len(group.clients) > 1]
    return [Coalition(tuple(names), "likeness", _label(names)) for names in found]


def _alike(group: _Group, alone: _Group) -> bool:
    near = distance(group.cloud, alone.cloud) < _NEARER * min(group.far, alone.far)
    return near and chance_alike(group.cloud, alone.cloud) > _ALIKE


def _label(group: list[str]) -> str:
    more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
    return f"{', '.join(group[:_NAMED])}{more} (ask alike)"
