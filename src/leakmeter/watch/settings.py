"""`[log]` of a plan: what the columns of an access log are called, who is honest, and how much is spent on looking."""

from __future__ import annotations

from pydantic import Field

from leakmeter.settings import Settings


class LogSettings(Settings):
    """How to read a log; each row is one query."""

    client: str = "client"
    """The column that says who asked."""
    time: str = "time"
    """When: an ISO time, or seconds or milliseconds since 1970."""
    input: str = "input"
    """What was asked: a list of numbers, or the path of a `.npy` file inside the log's folder (`x.npy`, `x.npy#12`)."""
    columns: tuple[str, ...] = ()
    """Columns that hold one number or level each, in the model's order, instead of `input`."""
    answer: str = "answer"
    """What was shown: a label (its number or its name), or a list of probabilities."""
    group: str | None = None
    """A column that is the same for clients that belong together, such as who pays."""
    network: str | None = None
    """A column with the client's address: clients of one network (/24, or /48 of IPv6) are looked at together."""
    honest: tuple[str, ...] = ()
    """Clients known to be honest: the control, on whom false alarms are counted."""
    honest_column: str | None = None
    """A column that is true for them."""
    table: str | None = None
    """Of a database: the table to read."""
    line: float = Field(default=0.8, gt=0, le=1)
    """The fidelity from which a client raises an alarm, where the policy says none."""
    train: int = Field(default=20, ge=1)
    """The most clients and coalitions to train copies for."""
    least: int = Field(default=50, ge=1)
    """Clients with fewer different queries are not looked at."""
    most: int = Field(default=20_000, ge=10)
    """The most queries of one client that a copy is trained on."""
    effort: float = Field(default=0.3, gt=0)
    """Scales the time spent on each copy."""
    students: tuple[str, ...] | None = None
    """What to try as copies; None: all that suit the model."""
    detectors: tuple[str, ...] = ("prada",)
    """Detectors that see the queries of the clients trained on."""
    seed: int = 0
