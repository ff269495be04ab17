"""Run as a process of its own: opens an ONNX file and asks it one row, with limited memory. See `trial.py`."""

from __future__ import annotations

import numpy as np

from leakmeter.trial import limited


def attempt(path: str) -> None:
    """Opens the file and asks it for the answer to one row of zeros."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    feed = {}
    for each in session.get_inputs():
        if each.type not in kinds:  # refused later, in a sentence of its own
            return
        feed[each.name] = np.zeros([side if isinstance(side, int) else 1 for side in each.shape], kinds[each.type])
    try:
        session.run(None, feed)
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument:
        return  # a side that the file leaves open is not 1


if __name__ == "__main__":
    import onnxruntime  # noqa: F401, before the limit: it is not the file's doing

    limited(attempt)
