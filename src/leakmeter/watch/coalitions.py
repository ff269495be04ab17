"""Clients that may be one: by the owner's column, by network, and by how alike they ask.

Likeness alone proves nothing among those who ask as honest users do: these all ask alike. So clients are put together
by likeness only where their queries differ from honest ones; thieves who ask natural data are not found this way.
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


def alike_coalitions(clouds: dict[str, Cloud], honest: Cloud) -> list[Coalition]:
    """By likeness: each client joins the first group whose every member asks as it does.

    Args:
        clouds: the queries of clients that are not declared honest, the most worth first.
        honest: inputs as honest clients ask them.
    """
    strange = [name for name, cloud in clouds.items() if cloud.n > 1 and chance_alike(cloud, honest) < _STRANGE]
    far = {name: distance(clouds[name], honest) for name in strange}

    def alike(one: str, other: str) -> bool:
        near = distance(clouds[one], clouds[other]) < _NEARER * min(far[one], far[other])
        return near and chance_alike(clouds[one], clouds[other]) > _ALIKE

    groups: list[list[str]] = []
    for name in strange:
        home = next((g for g in groups if all(alike(name, member) for member in g)), None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return [Coalition(tuple(sorted(group)), "likeness", _label(sorted(group))) for group in groups if len(group) > 1]


def _label(group: list[str]) -> str:
    more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
    return f"{', '.join(group[:_NAMED])}{more} (ask alike)"
