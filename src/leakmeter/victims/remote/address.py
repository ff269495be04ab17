"""Which addresses may be asked: this machine's own, and others only on somebody's word."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from leakmeter.errors import UsageError


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself; whatever is spelt unusually is not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(url: str, authorized_by: str | None) -> bool:
    """Whether it is this machine's own; an address that nobody allowed is refused.

    httpx, which will send the request, takes the address apart: two readers might disagree on the host.
    """
    import httpx

    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError("expected an address such as http://127.0.0.1:8000/v2/models/NAME, got another") from error
    if address.userinfo:
        raise UsageError("expected an address without a password; name the variable that holds the key with key_env")
    if address.scheme not in ("http", "https") or not address.host:
        raise UsageError(f"expected an http:// or https:// address, got '{without_query(url)}'")
    local = is_loopback(address.host)
    if not local and authorized_by is None:
        raise UsageError(
            f"{address.host} is not this machine; say who allowed the audit with --authorized-by (authorized_by=), "
            "which the report records"
        )
    return local


def proxy_for(url: str) -> str | None:
    """The proxy that this machine's environment wants for an address."""
    address = urlsplit(url)
    return None if proxy_bypass(address.hostname or "") else getproxies().get(address.scheme)


def without_query(url: str) -> str:
    """The part of an address that may be shown."""
    return url.partition("?")[0].partition("#")[0]
