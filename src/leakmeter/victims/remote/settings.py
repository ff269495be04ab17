"""How to ask a remote victim, and on whose word. Nothing heavy is imported here: a plan holds this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from leakmeter.settings import Settings, checked
from leakmeter.victims.explained import OwnExplanation


class RemoteSettings(Settings):
    """What `load_victim(..., remote=)` and a plan's `[victim.remote]` take. The key itself is never among it."""

    authorized_by: str | None = Field(default=None, pattern=r"\S")
    """Who allowed this audit; needed for every address that is not this machine's own, and put in the report."""
    key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The environment variable that holds the API key."""
    rps: float | None = Field(default=None, gt=0)
    """The most requests a second; None: no limit."""
    concurrency: int = Field(default=4, ge=1, le=256)
    """The most requests under way at once."""
    rows: int | None = Field(default=None, ge=1)
    """Rows a request; None: 64, or as many as make some 3 MB of JSON."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds to wait for an answer."""
    retries: int = Field(default=8, ge=0)
    """How often a request is sent again after a failure."""
    patience: float = Field(default=300.0, ge=0)
    """Seconds to wait in all for a server that says "later" to one request."""
    output: str | None = None
    """Which output to read, where the model has several."""
    explanation: OwnExplanation | None = None
    """The output that holds an explanation, where the model gives one."""


def make_settings(given: RemoteSettings | Mapping[str, Any]) -> RemoteSettings:
    """The settings, or one sentence about the first thing wrong with them."""
    return given if isinstance(given, RemoteSettings) else checked(RemoteSettings, given, "a remote victim", "setting")
