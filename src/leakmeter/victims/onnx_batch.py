"""An ONNX graph that was exported for one number of rows, made to take any: where the graph allows it.

Nobody knows beforehand whether it does. What is made here is tried against the file itself, row by row, before it is
used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

_LARGEST = 1 << 29  # bytes; a larger graph is not copied in memory


def free_batch(path: Path, batch: int) -> bytes:
    """The model with its batch dimension made free.

    Raises:
        ValueError: why that cannot be done.
    """
    try:
        import onnx
    except ImportError as error:
        raise ValueError("the package onnx, which could make its batch dimension free, is not installed") from error
    if path.stat().st_size > _LARGEST:
        raise ValueError("its file is too large to be rewritten")
    model = onnx.load(path, load_external_data=False)
    for value in (*model.graph.input, *model.graph.output):
        sides = value.type.tensor_type.shape.dim
        if len(sides) and sides[0].dim_value == batch:
            sides[0].dim_param = "batch"
    del model.graph.value_info[:]
    _free_reshapes(model.graph, batch)
    written: bytes = model.SerializeToString()
    return written


def _free_reshapes(graph: Any, batch: int) -> None:
    """Shapes that begin with the number of rows are constants in most exports."""
    from onnx import numpy_helper

    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    for number, node in enumerate(graph.node):
        if node.op_type != "Reshape" or len(node.input) != 2 or node.input[1] not in known:
            continue
        sides = [int(side) for side in known[node.input[1]].reshape(-1)]
        if sides and sides[0] == batch:
            free = np.array([0 if -1 in sides else -1, *sides[1:]], dtype=np.int64)
            name = f"leakmeter_shape_{number}"
            graph.initializer.append(numpy_helper.from_array(free, name))
            node.input[1] = name
