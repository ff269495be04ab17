"""Everybody whom no alarm names, looked at as if they were one.

Accounts of one thief who ask as honest users do cannot be told from honest users by what they ask. What can be said is
how good a copy the answers of all these clients buy together: whichever of them are one, they hold no more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from leakmeter.watch.copies import Bench, measured
from leakmeter.watch.record import Others
from leakmeter.watch.rows import Rows
from leakmeter.watch.state import State

BUSIEST = 10
_SPARE = 4  # times as many queries as a copy learns are enough to draw them from


def unnamed(state: State, honest: tuple[str, ...], named: Collection[str]) -> list[str]:
    """Clients that are neither declared honest nor named by an alarm, the most different queries first."""
    found = state.connection.execute(
        "SELECT client FROM queries GROUP BY client HAVING NOT bool_or(honest) AND NOT list_contains(?, client) "
        "ORDER BY approx_count_distinct(asked) DESC, client",
        [[*honest, *named]],
    ).fetchall()
    return [client for (client,) in found]


def others_of(bench: Bench, clients: list[str], read: Callable[[list[str], int], Rows]) -> list[Others]:
    """The copy that the ten busiest of these clients would have if they were one, and that of all of them.

    Args:
        bench: what a measurement needs.
        clients: the busiest first; of one alone there is nothing to say that the table of clients does not.
        read: gives the rows of some clients, of one in so many different queries.
    """
    found: list[Others] = []
    for accounts in [n for n in (BUSIEST, len(clients)) if 1 < n <= len(clients)]:
        one = _together(bench, clients[:accounts], read)
        if one is not None and (not found or accounts > found[-1].accounts):
            found.append(one if not found or one.fidelity >= found[-1].fidelity else _no_less(one, found[-1]))
    return found


def _together(bench: Bench, clients: list[str], read: Callable[[list[str], int], Rows]) -> Others | None:
    counted = bench.state.connection.execute(
        "SELECT count(*) FROM queries WHERE client IN (SELECT unnest(?))", [clients]
    ).fetchone()
    assert counted is not None
    rows = read(clients, max(1, counted[0] // (_SPARE * bench.log.most)))
    if len(rows) < 2:
        return None
    point = measured(bench, bench.key, rows, len(rows))
    about = {"fidelity": point.fidelity, "interval": point.interval, "thieves": point.thieves}
    return Others(accounts=len(clients), queries=counted[0], trained_on=len(rows), **about)


def _no_less(one: Others, fewer: Others) -> Others:
    """Whoever holds more answers can learn from the better part of them alone."""
    update = {"fidelity": fewer.fidelity, "interval": fewer.interval, "thieves": fewer.thieves}
    return one.model_copy(update=update)
