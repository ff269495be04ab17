"""An ONNX file run by onnxruntime (extra `[onnx]`), as it was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakmeter.errors import UsageError, first_line, missing_extra
from leakmeter.victims.answers import columns_of, is_maps, no_rows
from leakmeter.victims.kind import FileKind, Request
from leakmeter.victims.onnx_batch import free_batch
from leakmeter.victims.onnx_check import check_onnx
from leakmeter.victims.onnx_graph import Graph, read_graph


class OnnxFunction:
    """A session as a function on arrays, with what its file states.

    Attributes:
        input_shape: the sides of one input, None for one that the file leaves open.
        dtype: of raw inputs.
        whole: whether it takes whole numbers only.
        low: the lowest value, where the type of numbers or the graph says it.
        high: the highest.
        notes: how rows are asked, known after the first call.
        class_names: where answers name the classes: in words, known after the first call.
    """

    def __init__(self, path: Path, session: Any, graph: Graph) -> None:
        self._path, self._session, self._graph = path, session, graph
        self._rows: int | None = None
        self._free = self._tried = False
        self.input_shape = tuple(side if isinstance(side, int) else None for side in graph.shape[1:]) or None
        self.dtype = torch.float64 if graph.dtype == np.float64 else torch.float32
        self.whole = graph.dtype.kind in "iub"
        self.low, self.high = graph.range
        self._chosen = () if graph.said is None else (graph.said,)
        self.notes: tuple[str, ...] = self._chosen
        self.class_names: tuple[str, ...] | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The outputs for a batch; the first decides whether rows can be asked together."""
        if self._tried:
            return self._run(x)
        outputs = self._try(x)
        self._tried = True
        return outputs

    def _run(self, x: np.ndarray) -> np.ndarray:
        """Rows as many at a time as it takes; the last are filled up with repeats."""
        size = self._rows or len(x)
        parts = []
        for start in range(0, len(x), size):
            part = x[start : start + size]
            full = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)]) if len(part) < size else part
            answer = self._ask(full)
            if len(answer) != len(full):
                raise no_rows(len(full), answer)
            parts.append(answer[: len(part)])
        return np.concatenate(parts)

    def _ask(self, x: np.ndarray) -> np.ndarray:
        answer = self._session.run([self._graph.output], self._graph.feeds(x, self._free))[0]
        if isinstance(answer, list):
            return self._columns(answer)
        outputs = np.asarray(answer)
        if self._graph.single and outputs.shape[:1] != (1,):
            outputs = outputs[None]
        if outputs.dtype.kind in "OU":
            return outputs  # words for classes, which whoever calls knows
        if outputs.dtype.kind not in "iufb":
            raise UsageError(
                f"expected its output '{self._graph.output}' to be numbers, got {outputs.dtype}; choose another output"
            )
        if outputs.ndim > 2 and outputs.size == len(outputs) * max(outputs.shape[1:]):
            return outputs.reshape(len(outputs), -1)
        return outputs.astype(np.float32) if outputs.dtype == np.float16 else outputs

    def _columns(self, maps: list[Any]) -> np.ndarray:
        """A sequence of maps from class to score, as scikit-learn's converter writes it."""
        if not is_maps(maps):
            raise UsageError(
                f"expected its output '{self._graph.output}' to be numbers or a map a row, got a sequence of "
                f"{type(maps[0]).__name__ if maps else 'nothing'}; choose another output, or export the model with one"
            )
        columns, self.class_names = columns_of(maps)
        return columns

    def _try(self, x: np.ndarray) -> np.ndarray:
        """Row by row, as surely works, and then together: an answer must not depend on the rows beside it."""
        batch = self._graph.batch
        self._rows = batch or 1
        alone = self._run(x)
        session, why = self._session, "a row's answer depends on the rows beside it"
        try:
            self._rows = None
            if self._graph.single:
                raise ValueError("it has no dimension of rows")
            if batch is not None:
                self._session, self._free = _session(free_batch(self._path, batch)), True
            if _agree(self._run(x), alone):
                self._note("its batch dimension was made free, and it answers a few rows as the file does", batch)
                return alone
        except Exception as error:  # whatever the rewritten graph cannot do, the file itself still can
            why = str(error) if isinstance(error, ValueError) else "its graph takes no other number of rows"
        self._session, self._free, self._rows = session, False, batch or 1
        self._note(f"rows are asked {self._rows} at a time, because {why}", batch)
        return alone

    def _note(self, what: str, batch: int | None) -> None:
        if self._graph.single:
            self.notes = (
                *self._chosen,
                "The model takes one input without a dimension of rows: it is asked row by row.",
            )
        elif batch is not None:
            self.notes = (*self._chosen, f"The model was exported for batches of {batch}: {what}.")
        elif self._rows is not None:
            self.notes = (*self._chosen, f"{what[0].upper()}{what[1:]}.")


class OnnxKind(FileKind):
    """Models of which one input is varied."""

    form = "an .onnx file"
    suffixes = (".onnx",)
    ends = ("output", "inputs", "sizes")

    def read(self, path: Path, request: Request) -> OnnxFunction:
        """A session on the CPU."""
        session = open_session(path)
        return OnnxFunction(path, session, read_graph(path, session, request.facts, request.ends))


def open_session(path: Path) -> Any:
    """A file, checked and opened."""
    try:
        check_onnx(path)
        return _session(str(path))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} is not an ONNX model: {first_line(error)}") from error


def _session(model: str | bytes) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra("onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()  # cells run beside each other, a core each
    options.log_severity_level = 4  # what goes wrong is raised as well
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _agree(one: np.ndarray, other: np.ndarray) -> bool:
    """But for rounding: sums are added up in another order."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind in "OU":
        return bool((one == other).all())
    return bool(np.allclose(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(other).max(initial=0)))))
