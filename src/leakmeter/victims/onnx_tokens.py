"""Which whole numbers an ONNX graph takes, where it looks them up: rows of a table, places of a one-hot code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.victims.bounds import UNSAID, Bound

_SAME = ("Cast", "Identity", "Reshape", "Expand", "Unsqueeze", "Squeeze", "Flatten", "Transpose")
"""Operators that hand numbers on as they are."""


def token_range(path: Path, name: str) -> tuple[Bound, Bound]:
    """The lowest and the highest number for which each place where the input is looked up has an entry."""
    try:
        import onnx
    except ImportError:  # then whoever audits the model must say it
        return UNSAID, UNSAID
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name: tensor for tensor in graph.initializer}
    known |= {
        node.output[0]: node.attribute[0].t
        for node in graph.node
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"
    }
    followed, ends = {name}, []
    for node in graph.node:  # they stand in the order in which they are computed
        if node.op_type in _SAME and node.input[0] in followed:
            followed.update(node.output)
        else:
            ends += _looked_up(node, followed, known)
    return (max(low for low, _ in ends), min(high for _, high in ends)) if ends else (UNSAID, UNSAID)


def _looked_up(node: Any, followed: set[str], known: dict[str, Any]) -> list[tuple[float, float]]:
    """The numbers that an operator has entries for, if it looks up the input."""
    from onnx import numpy_helper

    inputs = list(node.input)
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    if node.op_type == "Gather" and axis == 0 and inputs[1] in followed and inputs[0] in known:
        return [(0.0, float(known[inputs[0]].dims[0] - 1))]
    if node.op_type == "OneHot" and inputs[0] in followed and inputs[1] in known:
        return [(0.0, float(numpy_helper.to_array(known[inputs[1]]).item() - 1))]
    if node.op_type == "Equal" and followed.intersection(inputs):
        codes = [numpy_helper.to_array(known[each]).reshape(-1) for each in inputs if each in known]
        if len(codes) == 1 and np.array_equal(codes[0], np.arange(len(codes[0]))) and len(codes[0]) > 1:
            return [(0.0, float(len(codes[0]) - 1))]
    return []
