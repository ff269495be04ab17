"""Which way of writing questions and answers an address speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.facts import Facts
from leakmeter.victims.remote.client import Client
from leakmeter.victims.remote.pace import Pace
from leakmeter.victims.remote.protocol import open_model
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.remote.template import Template, first_protocol, read_description


class WireFormat(Protocol):
    """How an API writes questions and answers, and what it says of its model."""

    url: str
    rows: int | None
    facts: Facts
    own: OwnExplanation | None

    def encode(self, x: np.ndarray) -> bytes:
        """A request."""

    def decode(self, body: bytes) -> np.ndarray:
        """The outputs in an answer, or BadAnswer."""

    def decode_explained(self, body: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The outputs and the explanation in an answer, or BadAnswer."""


def connect(
    source: str,
    settings: RemoteSettings,
    output: str | None,
    names: tuple[str, ...] | None,
    pace: Pace | None = None,
) -> tuple[Client, WireFormat]:
    """A client and how to speak through it; of the server only its metadata are asked.

    Args:
        source: the address of a model, or the path of a `.toml` file that describes an API.
        settings: how to ask.
        output: which output to read, where there are several.
        names: what the classes are called, where answers speak of them by name.
        pace: what several workers keep to together.
    """
    if source.lower().endswith(".toml"):
        description = read_description(Path(source))
        return Client(description.url, settings, description.headers, pace), Template(description, names)
    client, own = Client(source, settings, pace=pace), settings.explanation
    known = first_protocol(source, output, own)
    return client, open_model(source, client, output, names, own) if known is None else Template(known, names)
