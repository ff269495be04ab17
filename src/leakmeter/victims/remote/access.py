"""Whom we may ask, this machine and others on somebody's word, and with which key, which is shown nowhere."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from leakmeter.errors import UsageError
from leakmeter.shown import keep_secret

PLACE = "{key}"
"""Stands for the key in a header."""


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


def read_key(variable: str) -> str:
    """The key in an environment variable; no error ever shows it."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"the environment variable {variable} holds no key; set it, or leave key_env out")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in the environment variable {variable} holds characters that a header cannot carry")
    keep_secret(key)
    return key


def with_key(headers: Mapping[str, str], variable: str | None) -> dict[str, str]:
    """The headers with the key where they want it, else as a bearer token."""
    wanting = [name for name, value in headers.items() if PLACE in value]
    if variable is None:
        if wanting:
            raise UsageError(f"the header {wanting[0]} needs a key; name the variable that holds it with key_env")
        return dict(headers)
    places = headers if wanting else {**headers, "authorization": f"Bearer {PLACE}"}
    key = read_key(variable)
    return {name: value.replace(PLACE, key) for name, value in places.items()}
