"""Keys written into a description, which is kept and passed on: refused wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from leakmeter.errors import UsageError
from leakmeter.victims.remote.access import PLACE

if TYPE_CHECKING:
    from leakmeter.victims.remote.template import Description

_NAMES = re.compile(r"auth|key|token|secret|cookie|passw|credential|session|signature|\bsig\b|bearer", re.IGNORECASE)
_PLACED = re.compile(r"(?:[A-Za-z-]{1,16} )?(?:[a-z_]{1,12}=)?\"?\{key\}\"?")
_TOKEN = re.compile(r"(?<![\w-])(?:sk-|pk-|hf_|gh[pousr]_|xox[abp]-|AKIA|AIza|eyJ)[\w.-]{8,}")
_LONG = re.compile(r"(?<![\w-])(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[\w-]{24,}")


def refuse_keys(description: Description, path: Path) -> None:
    """UsageError for a header, an address or a request of the file that holds a key, or what looks like one."""
    for name, value in description.headers.items():
        if PLACE in value or _NAMES.search(name):
            if not _PLACED.fullmatch(value):
                raise UsageError(
                    f"expected {PLACE}, at most with a word such as Bearer before it, in the header {name} of {path}; "
                    "a key belongs in the variable of key_env"
                )
        elif _looks_like_a_key(value):
            raise _written(f"the header {name}", path)
    for name, value in parse_qsl(urlsplit(description.url).query, keep_blank_values=True):
        if _NAMES.search(name) or _looks_like_a_key(value) or PLACE in value:
            raise _written(f"the address (its {name})", path)
    for name, value in _texts("request", description.request):
        if _NAMES.search(name.rpartition(".")[2]) or _looks_like_a_key(value) or PLACE in value:
            raise _written(name, path)


def _looks_like_a_key(value: str) -> bool:
    return bool(_TOKEN.search(value) or _LONG.search(value))


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if value not in ("{rows}", "{row}"):
            yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(f"{name}.{key}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(name, item)


def _written(where: str, path: Path) -> UsageError:
    return UsageError(
        f"{where} of the description {path} seems to hold a key; leave it out, name the variable that holds it with "
        f'key_env, and put {PLACE} into a header, such as x-api-key = "{PLACE}"'
    )
