"""One victim in the words of the Open Inference Protocol: its metadata, and its answers to requests."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import torch
from pydantic_core import to_json
from torch import Tensor

from leakmeter.errors import UsageError, VictimError
from leakmeter.seeds import stream
from leakmeter.victims.remote.client import BadAnswer
from leakmeter.victims.remote.protocol import array, parse, tensor
from leakmeter.victims.spec import from_array
from leakmeter.victims.victim import Question, Responder

_DATATYPES = {torch.float32: "FP32", torch.float64: "FP64"}


class Served:
    """A victim that takes requests from several threads and computes one at a time."""

    def __init__(self, victim: Responder, seed: int = 0) -> None:
        self._victim, self._seed, self._asked = victim, seed, 0
        self._lock = threading.Lock()  # a victim need not be safe to call from two threads
        self.name = re.sub(r"[^A-Za-z0-9._-]+", "-", victim.spec.name).strip("-.") or "model"
        """What addresses call it."""
        if victim.spec.dtype not in _DATATYPES:
            raise UsageError(f"expected a victim of float32 or float64 inputs to serve, got {victim.spec.dtype}")

    @property
    def features(self) -> int:
        """How many numbers one input has."""
        return self._victim.spec.features

    def metadata(self) -> dict[str, Any]:
        """What `load_victim` needs to know, and more than the protocol asks for: the box and the classes."""
        spec = self._victim.spec
        datatype, labels = _DATATYPES[spec.dtype], spec.outputs == "labels"
        box = {"low": _plain(spec.low), "high": _plain(spec.high)}
        return {
            "name": self.name,
            "versions": [],
            "platform": "leakmeter",
            "inputs": [
                {"name": "input", "datatype": datatype, "shape": [-1, *spec.input_shape], "parameters": box},
            ],
            "outputs": [
                {
                    "name": spec.outputs,
                    "datatype": "INT64" if labels else datatype,
                    "shape": [-1] if labels else [-1, spec.classes],
                    "parameters": {"classes": spec.classes},
                },
            ],
        }

    def infer(self, body: bytes) -> bytes:
        """Answers a request; UsageError for one that cannot be answered."""
        request = _object(body)
        x = self._victim.spec.admit(self._input(request))
        outputs = torch.cat([self._respond(piece) for piece in torch.split(x, self._victim.batch)])
        if outputs.dtype.is_floating_point and not torch.isfinite(outputs).all():
            raise VictimError("the model answered with NaN or infinity")
        wide = outputs.cpu().numpy()
        if self._victim.spec.outputs == "labels":
            wide = wide.astype(np.int64)
        answer: dict[str, Any] = {"model_name": self.name, "outputs": [tensor(self._victim.spec.outputs, wide)]}
        if "id" in request:
            answer["id"] = request["id"]
        return to_json(answer)

    def _input(self, request: dict[str, Any]) -> Tensor:
        inputs = request.get("inputs")
        if not isinstance(inputs, list) or len(inputs) != 1:
            raise UsageError("expected one tensor in inputs")
        try:
            numbers = array(inputs[0])
        except BadAnswer as error:
            raise UsageError("expected an input with a shape and as many numbers in data") from error
        return from_array(numbers).to(self._victim.spec.dtype)

    @torch.inference_mode()
    def _respond(self, x: Tensor) -> Tensor:
        with self._lock:
            self._asked += 1
            return self._victim.respond(x, Question(stream(self._seed, "answer", self._asked)))


def _object(body: bytes) -> dict[str, Any]:
    try:
        request = parse(body)
    except BadAnswer as error:
        raise UsageError("expected a request in JSON") from error
    if not isinstance(request, dict):
        raise UsageError("expected a JSON object")
    return request


def _plain(bound: Tensor | None) -> Any:
    return None if bound is None else bound.tolist()
