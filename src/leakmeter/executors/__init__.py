"""Where jobs run: each executor takes the same jobs and gives the same results."""

from __future__ import annotations

from leakmeter.errors import UsageError
from leakmeter.executors.job import Executor


def make_executor(text: str) -> Executor:
    """The executor of that name.

    `inline` (this process), `local` (one process a core), `local:N`, `ray` (RAY_ADDRESS, or this machine alone) or
    `ray:ADDRESS`.
    """
    kind, _, rest = text.partition(":")
    if kind == "ray":
        from leakmeter.executors.ray import RayExecutor

        return RayExecutor(rest or None)
    if text == "inline":
        from leakmeter.executors.inline import InlineExecutor

        return InlineExecutor()
    if kind != "local" or (rest and not (rest.isdecimal() and int(rest) > 0)):
        raise UsageError(f"expected --executor inline, local, local:N, ray or ray:ADDRESS, got '{text}'")
    from leakmeter.executors.local import LocalExecutor

    return LocalExecutor(int(rest) if rest else None)
