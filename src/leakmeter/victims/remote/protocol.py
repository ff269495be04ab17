"""The Open Inference Protocol v2 in JSON, as KServe, Triton and MLServer speak it. Both sides use the same tensors.

JSON is written and read by pydantic's own code: arrays of numbers cost a tenth of what the standard library takes, and
come back to the last bit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from pydantic_core import from_json, to_json

from leakmeter.errors import UsageError
from leakmeter.victims.explained import OwnExplanation
from leakmeter.victims.facts import Facts
from leakmeter.victims.numbers import as_type, type_range
from leakmeter.victims.remote.client import BadAnswer, Client, Misdescribed, NotFound, Unexplained

_TYPES = {
    "BOOL": "bool",
    **{f"{kind}INT{bits}": f"{kind.lower()}int{bits}" for kind in ("", "U") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_DATATYPES = {name: datatype for datatype, name in _TYPES.items()}
_MEANINGS = {
    "logits": "logits",
    "probs": "probs",
    "probabilities": "probs",
    "predict_proba": "probs",  # MLServer's scikit-learn runtime
    "labels": "labels",
    "predict": "labels",
}
_DIMENSIONS = 8  # the most of a tensor
_ANY_INPUT = "input-0"  # the name that servers which do not name their input expect, or ignore
_ADDRESS = re.compile(r"(https?://[^?#]+/v2/models/[^/?#]+(?:/versions/[^/?#]+)?)(?:/infer)?/?", re.IGNORECASE)


class OpenInference:
    """One model of a server: what its metadata says, and how it is asked.

    Attributes:
        facts: what is known about the victim without asking it: shape, type, box, classes, outputs.
        url: where to send queries.
        rows: the most rows it takes at once; None: as many as one likes.
        own: which output explains the answer, if one does.
    """

    def __init__(
        self,
        url: str,
        metadata: Mapping[str, Any],
        output: str | None = None,
        names: tuple[str, ...] | None = None,
        own: OwnExplanation | None = None,
    ) -> None:
        self.url = f"{url}/infer"
        self.facts = Facts()
        self.rows: int | None = None
        self._input, self._output, self._names = _ANY_INPUT, output, names
        self.own, self._explained = own, None if own is None else own.field
        self._type: np.dtype[Any] | None = None  # of the inputs, where the server says it
        if inputs := metadata.get("inputs"):
            self._read_input(inputs)
        if outputs := metadata.get("outputs"):
            self._read_output(outputs)
        elif output in _MEANINGS:
            self.facts = self.facts.or_else(Facts(outputs=_MEANINGS[output]))

    def encode(self, x: np.ndarray) -> bytes:
        """A request for some rows."""
        rows = x if self._type is None else as_type(x, self._type)
        request: dict[str, Any] = {"inputs": [tensor(self._input, rows)]}
        if self._output is not None:
            request["outputs"] = [{"name": name} for name in (self._output, self._explained) if name is not None]
        return to_json(request)

    def decode(self, body: bytes) -> np.ndarray:
        """The output in an answer."""
        outputs = _outputs(body)
        return array(outputs.get(self._output, next(iter(outputs.values()))), self._names)

    def decode_explained(self, body: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The same, and the output that holds the explanation."""
        outputs = _outputs(body)
        if self._explained not in outputs:
            raise Unexplained(f"its answer held no output '{self._explained}', where its explanation should be")
        maps = outputs.pop(self._explained)
        if not outputs:
            raise BadAnswer("its answer held no outputs beside its explanation")
        return array(outputs.get(self._output, next(iter(outputs.values()))), self._names), array(maps)

    def _read_input(self, inputs: list[Any]) -> None:
        if len(inputs) != 1:
            raise UsageError(f"expected a model of one input, got {len(inputs)}; describe the request in a .toml file")
        (described,) = inputs
        self._input = str(described["name"])
        datatype = described.get("datatype", "FP32")
        if datatype not in _TYPES:
            raise UsageError(f"expected an input of numbers ({', '.join(_TYPES)}), got {datatype}")
        self._type = np.dtype(_TYPES[datatype])
        low, high = type_range(self._type)
        batch, *sides = described.get("shape") or [-1]
        if batch not in (-1, 1):
            raise UsageError(f"expected a model that takes batches of any size, or single rows, got one of {batch}")
        self.rows = 1 if batch == 1 else None
        box = described.get("parameters") or {}
        self.facts = Facts(
            input_shape=tuple(sides) if sides and min(sides) > 0 else None,
            low=box.get("low", low),
            high=box.get("high", high),
            dtype=torch.float64 if datatype == "FP64" else torch.float32,
        )

    def _read_output(self, outputs: list[Any]) -> None:
        by_name = {name: each for each in outputs if (name := str(each["name"])) != self._explained}
        known = ", ".join(by_name)
        name = self._output or next(iter(by_name))
        if self._output is None and len(by_name) > 1:
            raise UsageError(
                f"the model has the outputs {known}; choose one with output, on the command line --output {name}"
            )
        if name not in by_name:
            raise UsageError(f"the model has no output '{name}' (known: {known})")
        self._output = name
        said = Facts(outputs=_MEANINGS.get(name.lower()), classes=_classes(by_name[name]) or None)
        self.facts = self.facts.or_else(said)


def _classes(output: dict[str, Any]) -> int | None:
    """The number of columns; labels have none, and say it in a parameter where they say it."""
    columns = (output.get("shape") or [-1])[1:]
    if len(columns) == 1 and columns[0] > 1:
        return int(columns[0])
    return (output.get("parameters") or {}).get("classes")


def _outputs(body: bytes) -> dict[Any, Any]:
    """The tensors of an answer by their names, in its order."""
    document = parse(body)
    outputs = document.get("outputs") if isinstance(document, dict) else None
    if not isinstance(outputs, list) or not outputs:
        raise BadAnswer("its answer held no outputs")
    named: dict[Any, Any] = {}
    for place, each in enumerate(outputs):
        name = each.get("name") if isinstance(each, dict) else None
        named.setdefault(name if isinstance(name, str) else place, each)
    return named


def open_model(
    address: str,
    client: Client,
    output: str | None,
    names: tuple[str, ...] | None,
    own: OwnExplanation | None = None,
) -> OpenInference:
    """Asks a server what it says about a model; one that says nothing (404) is asked with facts given by keyword."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise UsageError(
            "expected an address such as http://127.0.0.1:8000/v2/models/NAME or http://127.0.0.1:8000/v1/models/"
            f"NAME:predict, got '{client.where}'; describe other JSON APIs in a .toml file"
        )
    try:
        metadata = client.get(found[1], parse)
    except NotFound:
        metadata = {}
    try:
        return OpenInference(found[1], metadata, output, names, own)
    except UsageError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the metadata at {client.where} is not that of the Open Inference Protocol") from error


def tensor(name: str, x: np.ndarray) -> dict[str, Any]:
    """An array as the protocol writes it."""
    return {"name": name, "shape": list(x.shape), "datatype": _DATATYPES[x.dtype.name], "data": x.ravel().tolist()}


def array(described: Any, names: tuple[str, ...] | None = None) -> np.ndarray:
    """A tensor of the protocol, its data flat or nested, as an array of numbers; words are looked up in `names`."""
    try:
        shape, data = described["shape"], described["data"]
    except (KeyError, TypeError) as error:
        raise BadAnswer("its answer held no tensor, which has a shape and data") from error
    if not isinstance(shape, list) or len(shape) > _DIMENSIONS or not all(type(side) is int for side in shape):
        raise BadAnswer("its answer held a tensor whose shape is no list of whole numbers")
    numbers = as_numbers(by_number(data, names))
    if min(shape, default=0) < 0 or math.prod(shape) != numbers.size:
        raise BadAnswer(f"its answer had {numbers.size} numbers for the shape {tuple(shape)}")
    try:
        return numbers.reshape(shape)
    except ValueError as error:  # of nothing, in sizes beyond any memory
        raise BadAnswer(f"its answer had {numbers.size} numbers for a shape that cannot be") from error


def by_number(data: Any, names: tuple[str, ...] | None, depth: int = 0) -> Any:
    """Names of classes replaced by their places, scores by name put in order, and numbers read that come as text."""
    if isinstance(data, list) and depth < 2 and not (data and isinstance(data[0], int | float)):
        return [by_number(each, names, depth + 1) for each in data]
    if not isinstance(data, str | dict):
        return data
    if names is None and isinstance(data, str):
        with suppress(ValueError):  # some write their numbers in quotation marks
            return float(data)
    if names is None:
        raise Misdescribed(
            "its answer held words where numbers were expected; say the names of the classes in order, in a plan "
            'classes = ["cat", "dog"], on the command line --classes cat,dog, or choose one of several outputs with '
            "output, --output NAME"
        )
    try:
        return [data[name] for name in names] if isinstance(data, dict) else names.index(data)
    except (KeyError, ValueError) as error:
        raise BadAnswer("its answer spoke of other classes than were named") from error


def as_numbers(data: Any) -> np.ndarray:
    """Nested lists as an array; text, gaps and ragged rows are no numbers."""
    try:
        numbers = np.asarray(data)
    except ValueError as error:
        raise BadAnswer("its answer had rows of different lengths") from error
    if numbers.dtype.kind not in "iuf":
        raise BadAnswer("its answer held something that is not a number")
    return numbers


def parse(body: bytes) -> Any:
    """The JSON of an answer."""
    try:
        return from_json(body)
    except ValueError as error:
        raise BadAnswer("its answer was not whole JSON") from error
