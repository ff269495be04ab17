"""Small files that ask for much, and files with changed bytes: refused in a sentence, before anything is allocated."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from leakmeter.data import folder, idx, npz, svhn
from leakmeter.errors import UsageError
from leakmeter.models import make_model
from leakmeter.models.saved import load_network, save_network
from leakmeter.tensors import to_safetensors
from leakmeter.victims.load import load_victim

MOST = 150_000  # kilobytes that a refusal may take
SIZES = [pytest.param(100, id="quick"), pytest.param(10_000, id="long", marks=pytest.mark.slow)]


def npz_bytes(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def announced_npy(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    raw, file = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + b"\0" * 8, io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", raw)
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    stream = zlib.compressobj(9)
    rows = b"".join(stream.compress(b"\0" * (1 + 3 * width)) for _ in range(min(height, 50))) + stream.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def idx_bytes(*shape: int, content: bytes) -> bytes:
    return gzip.compress(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content)


def packed_mat(*sides: int) -> bytes:
    def part(kind: int, content: bytes) -> bytes:
        return struct.pack("<II", kind, len(content)) + content + b"\0" * (-len(content) % 8)

    shape = part(5, struct.pack(f"<{len(sides)}i", *sides))
    inside = part(6, bytes([9, 0, 0, 0, 0, 0, 0, 0])) + shape + part(1, b"X")
    stream = zlib.compress(struct.pack("<II", 14, 0x7FFFFFF0) + inside + struct.pack("<II", 2, 0x7FFFFF00))
    return b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(stream)) + stream


def network_bytes(**about: str) -> bytes:
    facts = {"model": "mlp:1000000", "input_shape": "[1, 20000, 20000]", "classes": "1000"} | about
    return to_safetensors({"x": torch.zeros(1)}, facts)


BOMBS: dict[str, tuple[str, bytes, Callable[[bytes, Path], object]]] = {
    "idx": ("a.gz", idx_bytes(60_000, 300, 300, content=b"\0" * (1 << 24)), lambda raw, p: idx.parse(raw, str(p), 3)),
    "idx, lying": ("a.gz", idx_bytes(1, 8, 8, content=b"\0" * (1 << 26)), lambda raw, p: idx.parse(raw, str(p), 3)),
    "npz": ("a.npz", npz_bytes(x=np.zeros((1 << 15, 1 << 12))), lambda raw, p: npz.parse(raw, str(p))),
    "npz header": ("a.npz", announced_npy("(1099511627776, 4)"), lambda raw, p: npz.parse(raw, str(p))),
    "png": ("a.png", png(13_000, 13_000), lambda raw, p: folder.parse(raw, str(p))),
    "png, vast": ("a.png", png(1_000_000, 1_000_000), lambda raw, p: folder.parse(raw, str(p))),
    "png, flat": ("a.png", png(16, 5_000_000), lambda raw, p: folder.parse(raw, str(p))),
    "mat": ("a.mat", packed_mat(32, 32, 3, 699_050), lambda raw, p: svhn.parse(p)),
    "safetensors": ("a.safetensors", network_bytes(), lambda raw, p: load_network(p)),
    "safetensors shape": ("a.safetensors", network_bytes(input_shape="5"), lambda raw, p: load_network(p)),
    "safetensors deep": ("a.safetensors", network_bytes(input_shape="[" * 9000), lambda raw, p: load_network(p)),
    "safetensors classes": ("a.safetensors", network_bytes(classes="²"), lambda raw, p: load_network(p)),
    "safetensors list": ("a.safetensors", network_bytes(input_shape='["a"]'), lambda raw, p: load_network(p)),
}


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_asks_for_much_is_refused_before_anything_is_allocated(tmp_path: Path, kind: str) -> None:
    name, raw, read = BOMBS[kind]
    (tmp_path / name).write_bytes(raw)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError):
        read(raw, tmp_path / name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST


def onnx_bytes(*nodes: object, dims: tuple[int, ...] = (2,), location: str = "") -> bytes:
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    big = helper.make_tensor("big", TensorProto.INT64, [2], [1 << 17, 1 << 17])
    big.dims[:] = dims
    if location:
        big.ClearField("int64_data")
        big.data_location = TensorProto.EXTERNAL
        big.external_data.add(key="location", value=location)
    graph = helper.make_graph(list(nodes), "g", [x], [y], [big])
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return model


def test_an_onnx_file_that_asks_for_much_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from onnx import helper

    fill = helper.make_node("ConstantOfShape", ["big"], ["z"])
    out = helper.make_node("Add", ["x", "z"], ["y"])
    same = helper.make_node("Identity", ["x"], ["y"])
    files = {
        "a tensor of shape": onnx_bytes(same, dims=(1 << 30, 1 << 30)),
        "keeps weights in a file": onnx_bytes(same, location="/etc/passwd"),
        "does not lie beside it": onnx_bytes(same, location="../../etc/passwd"),
        "cannot be used": onnx_bytes(fill, out),
        "is not an ONNX model": b"\x08\x07\x3a\xff\xff\xff\xff\x7f",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of whatever other tests started
    for sentence, raw in files.items():
        (tmp_path / "a.onnx").write_bytes(raw)
        with pytest.raises(UsageError, match=sentence):
            load_victim(tmp_path / "a.onnx", low=0.0, high=1.0)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # a forked child begins with all of this
    assert most < max(1_500_000, before + 1, own + 1_000_000)


def test_the_same_network_is_the_same_file_and_the_library_reads_it(tmp_path: Path) -> None:
    network = make_model("lenet", (1, 28, 28), 10)
    hashes = set()
    for i in range(8):
        save_network(network, tmp_path / f"{i}.safetensors", "lenet", (1, 28, 28), 10)
        hashes.add(hashlib.sha256((tmp_path / f"{i}.safetensors").read_bytes()).hexdigest())
    assert len(hashes) == 1
    kinds = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    kinds += [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    tensors = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds} | {"scalar": torch.tensor(2.0)}
    read = safetensors.torch.load(to_safetensors(tensors, {"b": "2", "a": json.dumps([1])}))
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)


def test_a_damaged_file_of_trees_is_refused_in_a_sentence(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.random((60, 4))
    model = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1, n_jobs=1).fit(x, x[:, 0] > 0.5)
    text = model.booster_.model_to_string()
    (tmp_path / "circle.txt").write_text(re.sub(r"left_child=-?\d+", "left_child=0", text))
    (tmp_path / "many.txt").write_text(text.replace("max_feature_idx=3", "max_feature_idx=99999999999"))
    for name, sentence in (("circle", "two parents"), ("many", "would take")):
        with pytest.raises(UsageError, match=sentence):
            load_victim(tmp_path / f"{name}.txt", low=0.0, high=1.0)


def test_a_saved_network_says_the_shape_of_its_inputs(tmp_path: Path) -> None:
    save_network(make_model("mlp:4", (1, 3, 3), 3), tmp_path / "a.safetensors", "mlp:4", (1, 3, 3), 3)
    assert load_victim(tmp_path / "a.safetensors", low=0.0, high=1.0).spec.input_shape == (1, 3, 3)
