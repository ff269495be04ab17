"""Cheap signals of every client, counted by SQL: they decide who is looked at closely."""

from __future__ import annotations

from dataclasses import dataclass

from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.parsing import highest_entropy
from leakmeter.watch.state import State


@dataclass(frozen=True)
class Signals:
    """What counting says of one client."""

    client: str
    queries: int
    different: int
    """Different inputs, about."""
    balance: float
    """Entropy of the classes answered, as a share of the highest."""
    first: float
    last: float
    honest: bool

    @property
    def novelty(self) -> float:
        """The share of the queries that were not asked before."""
        return min(1.0, self.different / self.queries)

    @property
    def worth(self) -> float:
        """What these answers may be worth to a thief: different queries, more if they name all classes."""
        return self.different * (0.2 + 0.8 * self.balance)


def count_clients(state: State, honest: tuple[str, ...]) -> tuple[int, int]:
    """How many clients there are, and how many of them are declared honest."""
    found = state.connection.execute(
        "SELECT count(*), count(*) FILTER (h) FROM (SELECT bool_or(honest) OR list_contains(?, client) AS h "
        "FROM queries GROUP BY client)",
        [list(honest)],
    ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def ranked_clients(
    state: State, spec: VictimSpec, honest: tuple[str, ...], least: int, most: int
) -> tuple[list[Signals], int]:
    """Clients with at least so many different queries, the most worth first, and how many such clients there are."""
    found = state.connection.execute(
        f"""
        WITH counted AS (SELECT client, count(*) AS queries, approx_count_distinct(asked) AS different,
                                {_balance(spec)} AS balance, min(t) AS first, max(t) AS last,
                                bool_or(honest) OR list_contains(?, client) AS honest
                         FROM queries GROUP BY client)
        SELECT *, count(*) OVER () AS all_of_them FROM counted WHERE different >= ?
        ORDER BY different * (0.2 + 0.8 * balance) DESC, client LIMIT ?""",
        [list(honest), least, most],
    ).fetchall()
    clients = [
        Signals(client, queries, min(different, queries), abs(balance), first, last, declared)
        for client, queries, different, balance, first, last, declared, _ in found
    ]
    return clients, int(found[0][-1]) if found else 0


def _balance(spec: VictimSpec) -> str:
    """Rounded: DuckDB adds in any order, and the same log must give the same number."""
    return f"round(entropy(label) / {highest_entropy(spec)}, 6)"


def together(state: State, spec: VictimSpec, clients: tuple[str, ...]) -> Signals:
    """What counting says of several clients as one."""
    found = state.connection.execute(
        f"SELECT count(*), approx_count_distinct(asked), {_balance(spec)}, min(t), max(t) "
        "FROM queries WHERE list_contains(?, client)",
        [list(clients)],
    ).fetchone()
    assert found is not None
    queries, different, balance, first, last = found
    return Signals(" + ".join(clients), queries, min(different, queries), abs(balance), first, last, honest=False)
