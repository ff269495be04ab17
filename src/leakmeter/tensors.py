"""Tensors as safetensors bytes, and their fingerprints.

The same tensors and facts give the same bytes, unlike with the library's own writer. Written by hand also because that
writer takes longer than all the rest of a logged query.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import torch
import xxhash
from torch import Tensor

_LENGTH = struct.Struct("<Q")
_DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}


def to_safetensors(tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file; tensors lie in the order they are given, facts in that of their names."""
    header: dict[str, object] = {"__metadata__": dict(sorted(about.items()))} if about else {}
    data, at = [], 0
    for name, tensor in tensors.items():
        data.append(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        end = at + len(data[-1])
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin where any of their numbers may
    return b"".join((_LENGTH.pack(len(text)), text, *data))


def digest(x: Tensor, topic: str = "") -> bytes:
    """A fingerprint of a question: equal only for the same numbers in the same shape and type on the same topic."""
    # Not a cryptographic hash: nobody gains by fooling his own log, and SHA-256 would cost 3 % of a LeNet's time.
    fingerprint = xxhash.xxh3_128(f"{topic} {x.dtype} {tuple(x.shape)} ".encode())
    fingerprint.update(x.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return fingerprint.digest()
