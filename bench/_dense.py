"""Fully connected networks from ONNX files as torch modules, so that gradients can be shown."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

VICTIMS = Path("../shared/victims")


def dense(path: Path, dtype: torch.dtype) -> nn.Sequential:
    """The file's linear layers with ReLUs between; an input that is subtracted first goes into the first bias."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    known = {
        tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()).to(dtype) for tensor in graph.initializer
    }
    linear: list[nn.Linear] = []
    shift: Tensor | None = None
    for node in graph.node:
        parts = [known[name] for name in node.input if name in known]
        if node.op_type == "Gemm":
            across = any(a.name == "transB" and a.i for a in node.attribute)
            linear.append(_layer(parts[0] if across else parts[0].T, parts[1]))
        elif node.op_type == "MatMul" and parts:
            linear.append(_layer(parts[0].T if node.input[1] in known else parts[0], None))
        elif node.op_type == "Add" and parts and linear:
            linear[-1].bias.data.add_(parts[0].flatten())
        elif node.op_type == "Sub" and parts:
            shift = parts[0].flatten()
    if shift is not None:
        linear[0].bias.data.sub_(linear[0].weight.data @ shift.expand(linear[0].in_features))
    modules: list[nn.Module] = [nn.Flatten()]
    for layer in linear:
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def _layer(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight.data.copy_(weight)
    layer.bias.data.copy_(torch.zeros(weight.shape[0]) if bias is None else bias)
    return layer
