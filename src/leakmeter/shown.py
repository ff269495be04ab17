"""What may be shown or written: no key that was sent, and nothing that a terminal obeys or a reader cannot see.

Text of others gets into sentences: a server's names for things, a victim's error, a result file somebody sent. All of
it passes here on its way to a terminal, a log or a report.
"""

from __future__ import annotations

import unicodedata
from base64 import b64encode
from typing import TypeVar
from urllib.parse import quote

T = TypeVar("T")
_HIDDEN = "[key]"
_SHORTEST = 6  # a shorter key is found in many a word
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_secrets: set[str] = set()


def keep_secret(key: str) -> None:
    """From now on `shown` hides the key, however a server may echo it."""
    if len(key) >= _SHORTEST:
        forms = (key, key[::-1], quote(key, safe=""), b64encode(key.encode()).decode().rstrip("="), key.encode().hex())
        _secrets.update(form.lower() for form in forms)


def shown(text: str) -> str:
    """The text without keys and without characters that act; lines stay lines."""
    clean = text if text.isascii() and text.isprintable() else "".join(map(_seen, text))
    for secret in sorted(_secrets, key=len, reverse=True):
        while (at := clean.lower().find(secret)) >= 0:
            clean = clean[:at] + _HIDDEN + clean[at + len(secret) :]
    return clean


def shown_in(value: T) -> T:
    """A document of dictionaries and lists with every text in it as `shown`."""
    if isinstance(value, str):
        return shown(value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {shown_in(key): shown_in(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        return type(value)(shown_in(item) for item in value)
    return value


def _seen(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _UNSEEN:
        return character
    return "\N{REPLACEMENT CHARACTER}"
