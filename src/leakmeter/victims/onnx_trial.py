"""Run as a process of its own: opens an ONNX file and asks it one row, with limited memory. See `trial.py`."""

from __future__ import annotations

import numpy as np

from leakmeter.trial import limited
from leakmeter.victims.onnx_numbers import NUMBERS


def attempt(path: str) -> None:
    """Opens the file and asks it for the answer to one row of zeros."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed: dict[str, np.ndarray] = {}
    whole = True
    for each in session.get_inputs():
        kind = NUMBERS.get(each.type)
        if kind is None:  # refused later, in a sentence of its own
            return
        whole &= all(isinstance(side, int) for side in each.shape)
        feed[each.name] = np.zeros([side if isinstance(side, int) else 1 for side in each.shape], kind)
    try:
        session.run(None, feed)
    except Exception as error:
        if "alloc" in str(error).lower() or whole:
            raise
        return  # a side that the file leaves open is not 1


if __name__ == "__main__":
    import onnxruntime  # noqa: F401, before the limit: it is not the file's doing

    limited(attempt)
