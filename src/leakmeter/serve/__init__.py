"""Any victim as a service on this machine (extra `[serve]`), in the protocol that remote victims are asked in."""

from __future__ import annotations

from typing import Any

from leakmeter.errors import UsageError, missing_extra
from leakmeter.victims.remote.access import is_loopback, read_key
from leakmeter.victims.victim import Responder

LIMITS: dict[str, Any] = {"access_log": False, "ws": "none", "limit_concurrency": 64}
"""With which uvicorn runs."""


def serve(
    victim: Responder,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    key_env: str | None = None,
    rate: float | None = None,
) -> None:
    """Serves until it is interrupted, and only to this machine.

    Args:
        victim: what `load_victim` returned, or a defense around it.
        host: a loopback address.
        port: 0 takes any that is free.
        key_env: the environment variable that holds the key clients must send; None: no key.
        rate: the most requests a second; more are refused with 429 and Retry-After.
    """
    if not is_loopback(host):
        raise UsageError(f"expected a loopback address such as 127.0.0.1 to serve on, got '{host}'")
    if rate is not None and rate <= 0:
        raise UsageError(f"expected a rate above 0 requests a second, got {rate:g}")
    key = None if key_env is None else read_key(key_env)
    try:
        import uvicorn

        from leakmeter.serve.app import make_app
        from leakmeter.serve.protocol import ImpatientProtocol
    except ImportError as error:
        raise missing_extra(error.name or "fastapi", "serve") from error
    try:
        uvicorn.run(make_app(victim, key=key, rate=rate), host=host, port=port, http=ImpatientProtocol, **LIMITS)
    except SystemExit as error:  # how it says that it could not begin
        raise UsageError(f"cannot serve on port {port}; choose another --port") from error
