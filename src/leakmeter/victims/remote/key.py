"""The API key: taken from an environment variable, put in a header, shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping

from leakmeter.errors import UsageError

PLACE = "{key}"
"""Stands for the key in a header."""


def read_key(variable: str) -> str:
    """The key in an environment variable; no error ever shows it."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"the environment variable {variable} holds no key; set it, or leave key_env out")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in the environment variable {variable} holds characters that a header cannot carry")
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
