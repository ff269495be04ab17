"""JSON APIs of any other shape, described in a small TOML file.

url = "https://api.example.com/v1/classify"
answer = "predictions.*.scores"     # where the outputs are: keys, indices, and * for each of a list
names = ["cat", "dog"]              # where the API speaks of classes by name: their order
explanation = {field = "predictions.*.shap", kind = "shap"}   # where an answer explains itself, if it does
outputs = "probs"                   # input_shape, low, high, classes: the facts, here or by keyword
[headers]
x-api-key = "{key}"                 # the key of the variable that key_env names
[request]
instances = "{rows}"                # a list of inputs; "{row}" instead: one input a request
"""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from pydantic_core import to_json

from leakmeter.errors import UsageError, first_line
from leakmeter.files import check_announced
from leakmeter.settings import Settings, checked
from leakmeter.victims.bounds import UNSAID, Bound
from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.facts import Facts
from leakmeter.victims.remote.client import BadAnswer, Unexplained
from leakmeter.victims.remote.protocol import as_numbers, by_number, parse
from leakmeter.victims.remote.written_keys import refuse_keys

_ROWS, _ROW = b'"{rows}"', b'"{row}"'
_FIRST = re.compile(r"(https?://[^?#]+/v1/models/[^/?#:]+(?:/versions/[^/?#:]+)?)(?::predict)?/?", re.IGNORECASE)


class Description(Settings):
    """The content of the file."""

    url: str
    request: dict[str, Any]
    """The JSON to send; "{rows}" stands for the list of inputs, or "{row}" for one input a request."""
    answer: str = Field(min_length=1)
    """Where the outputs are in the answer: keys and indices with dots between, * for each element of a list."""
    headers: dict[str, str] = Field(default_factory=dict)
    """{key} stands for the key."""
    names: tuple[str, ...] | None = None
    """The classes in order, for an API that speaks of them by name."""
    input_shape: tuple[int, ...] | None = None
    low: float | None = None
    """-inf: unbounded."""
    high: float | None = None
    classes: int | None = None
    outputs: str | None = None
    explanation: OwnExplanation | None = None
    """Where an answer explains itself, and how."""


class Template:
    """An API as its description says: the same face as `OpenInference`."""

    def __init__(self, description: Description, names: tuple[str, ...] | None = None) -> None:
        self.url = description.url
        self._text, self._path = to_json(description.request), description.answer.split(".")
        self._names, self.own = description.names or names, description.explanation
        places = [place for place in (_ROWS, _ROW) if place in self._text]
        if len(places) != 1 or self._text.count(places[0]) != 1:
            raise UsageError(f"expected {_ROWS.decode()} or {_ROW.decode()} once in the request of the description")
        (self._place,) = places
        self.rows = 1 if self._place == _ROW else None
        self.facts = Facts(
            input_shape=description.input_shape,
            low=_bound(description.low),
            high=_bound(description.high),
            classes=description.classes or (len(self._names) if self._names else None),
            outputs=description.outputs,
        )

    def encode(self, x: np.ndarray) -> bytes:
        """A request for some rows."""
        rows = x[0] if self.rows == 1 else x
        return self._text.replace(self._place, to_json(rows.tolist()))

    def decode(self, body: bytes) -> np.ndarray:
        """The outputs in an answer."""
        return self._outputs(parse(body))

    def decode_explained(self, body: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The same, and the explanation beside them."""
        assert self.own is not None
        document = parse(body)
        outputs = self._outputs(document)
        try:
            found = _walk(document, self.own.field.split("."))
            return outputs, as_numbers(self._maps([found] if self.rows == 1 else found))
        except BadAnswer as error:
            raise Unexplained(f"{error}, where its explanation should be") from error

    def _outputs(self, document: Any) -> np.ndarray:
        found = by_number(_walk(document, self._path), self._names)
        return as_numbers([found] if self.rows == 1 else found)

    def _maps(self, rows: Any) -> Any:
        """Maps by the names of classes put in order."""
        if self._names is None or not isinstance(rows, list):
            return rows
        try:
            return [[row[name] for name in self._names] if isinstance(row, dict) else row for row in rows]
        except KeyError as error:
            raise BadAnswer("it spoke of other classes than were named") from error


def first_protocol(address: str, output: str | None, own: OwnExplanation | None = None) -> Description | None:
    """TensorFlow Serving's protocol, which KServe calls v1; None: not such an address. It says nothing of its model."""
    found = _FIRST.fullmatch(address)
    if found is None:
        return None
    place = "predictions" if output is None else f"predictions.*.{output}"
    return Description(url=f"{found[1]}:predict", request={"instances": "{rows}"}, answer=place, explanation=own)


def read_description(path: Path) -> Description:
    """The file, checked; a key written into it is refused."""
    try:
        check_announced(path, path.stat().st_size)
        description = checked(Description, tomllib.loads(path.read_text()), f"the description {path}", "key")
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"cannot read the description {path}: {first_line(error)}") from error
    refuse_keys(description, path)
    return description


def _bound(given: float | None) -> Bound:
    if given is None:
        return UNSAID
    return None if math.isinf(given) else given


def _walk(document: Any, path: list[str]) -> Any:
    for place, step in enumerate(path):
        if step == "*" and isinstance(document, list):
            return [_walk(each, path[place + 1 :]) for each in document]
        try:
            document = document[int(step)] if isinstance(document, list) else document[step]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadAnswer(f"its answer had nothing at '{step}' of the path {'.'.join(path)}") from error
    return document
