"""An ONNX file run by onnxruntime (extra `[onnx]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakmeter.errors import UsageError, first_line, missing_extra
from leakmeter.victims.kind import FileKind, Request
from leakmeter.victims.onnx_check import check_onnx

_TYPES = {"tensor(float)": torch.float32, "tensor(double)": torch.float64}


class OnnxFunction:
    """A session as a function on arrays, with the shape its file states."""

    def __init__(self, session: Any) -> None:
        self._session = session
        inputs = session.get_inputs()
        if len(inputs) != 1:
            raise UsageError(f"expected an ONNX model of one input, got {len(inputs)}")
        self._input = inputs[0].name
        if inputs[0].type not in _TYPES:
            raise UsageError(f"expected an ONNX model of float inputs, got {inputs[0].type}")
        self.dtype = _TYPES[inputs[0].type]
        if inputs[0].shape and isinstance(inputs[0].shape[0], int):
            raise UsageError(
                f"the ONNX model was exported for batches of {inputs[0].shape[0]} only; "
                "export it with a dynamic first dimension (dynamic_axes)"
            )
        sides = inputs[0].shape[1:]
        self.input_shape = tuple(sides) if all(isinstance(side, int) for side in sides) else None
        outputs = [output.name for output in session.get_outputs()]
        # scikit-learn's converter puts labels first and probabilities second: the tensor of probabilities is wanted.
        self._output = next((name for name in outputs if "prob" in name.lower()), outputs[0])

    def __call__(self, x: np.ndarray) -> Any:
        """The outputs for a batch."""
        return self._session.run([self._output], {self._input: x})[0]


class OnnxKind(FileKind):
    """Models of one float input."""

    form = "an .onnx file"
    suffixes = (".onnx",)

    def read(self, path: Path, request: Request) -> OnnxFunction:  # noqa: ARG002
        """A session on the CPU."""
        try:
            import onnxruntime
        except ImportError as error:
            raise missing_extra("onnxruntime", "onnx") from error
        check_onnx(path)
        try:
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise UsageError(f"{path} is not an ONNX model: {first_line(error)}") from error
        return OnnxFunction(session)
