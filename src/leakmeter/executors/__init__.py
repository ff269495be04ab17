"""Where jobs run: each executor takes the same jobs and gives the same results."""

from __future__ import annotations

from leakmeter.errors import UsageError
from leakmeter.executors.job import Executor


def make_executor(text: str) -> Executor:
    """`local` (one process a core), `local:N`, `ray` (RAY_ADDRESS, or a cluster of this machine) or `ray:ADDRESS`."""
    kind, _, rest = text.partition(":")
    if kind == "ray":
        from leakmeter.executors.ray import RayExecutor

        return RayExecutor(rest or None)
    if kind != "local" or (rest and not (rest.isdecimal() and int(rest) > 0)):
        raise UsageError(f"expected --executor local, local:N, ray or ray:ADDRESS, got '{text}'")
    from leakmeter.executors.local import LocalExecutor

    return LocalExecutor(int(rest) if rest else None)
