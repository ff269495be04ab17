"""Every file that leakmeter reads: a sound one of each, how it is read, and how to reach what checksums protect."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mutations import mutated

from leakmeter._audit.flow import audit
from leakmeter.checkpoint import DiskCheckpoint
from leakmeter.data import folder, idx, npz, svhn, table
from leakmeter.models import make_model
from leakmeter.models.saved import save_network
from leakmeter.oracle.ledger import ATTACK, Ledger
from leakmeter.oracle.limits import LimitsFile
from leakmeter.oracle.log import AnswerLog
from leakmeter.oracle.oracle import Oracle
from leakmeter.plan import make_plan, read_plan
from leakmeter.report.html import document_html
from leakmeter.report.sections import report_document
from leakmeter.results import AuditResult
from leakmeter.victims.load import load_victim

Change = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    suffix: str
    make: Callable[[Path], None]
    """Writes a sound one."""
    read: Callable[[Path], object]
    """Does with it what leakmeter does."""
    inside: Change | None = None
    """Changes what lies behind a checksum or a compression, and makes that right again."""

    def change(self, content: bytes, chance: random.Random) -> bytes:
        """One change: of the bytes as they lie there or, every second time, inside."""
        return self.inside(content, chance) if self.inside and chance.random() < 0.5 else mutated(content, chance)


def in_archive(content: bytes, chance: random.Random) -> bytes:
    """One entry of a zip file changed, its checksum made right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    chosen, file = chance.choice([place for place, (_, raw) in enumerate(entries) if raw]), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for place, (name, raw) in enumerate(entries):
            archive.writestr(name, mutated(raw, chance) if place == chosen else raw)
    return file.getvalue()


def in_gzip(content: bytes, chance: random.Random) -> bytes:
    return gzip.compress(mutated(gzip.decompress(content), chance), 1)


def in_png(content: bytes, chance: random.Random) -> bytes:
    """One chunk changed, its checksum made right."""
    out, at = content[:8], 8
    starts = []
    while at < len(content):
        starts.append(at)
        at += 12 + struct.unpack(">I", content[at : at + 4])[0]
    chosen = chance.choice(starts)
    for start in starts:
        size = struct.unpack(">I", content[start : start + 4])[0]
        body = content[start + 4 : start + 8 + size]
        if start == chosen:
            body = mutated(body, chance)
        out += struct.pack(">I", max(0, len(body) - 4)) + body + struct.pack(">I", zlib.crc32(body))
    return out


def in_mat(content: bytes, chance: random.Random) -> bytes:
    """The first compressed matrix changed."""
    size = struct.unpack("<I", content[132:136])[0]
    stream = zlib.compress(mutated(zlib.decompress(content[136 : 136 + size]), chance), 1)
    return content[:132] + struct.pack("<I", len(stream)) + stream + content[136 + size :]


def asked(path: Path) -> None:
    """Loads a model and asks it two rows."""
    victim = load_victim(path, low=0.0, high=1.0)
    Oracle(victim, "probs", budget=2).query(torch.rand(2, *victim.spec.input_shape))


def _rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.random((60, 4)).astype(np.float32)
    return x, (x.sum(1) * 1.5 % 3).astype(int)


def _mat(path: Path) -> None:
    from scipy.io import savemat

    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 6), dtype=np.uint8)
    savemat(path, {"X": pixels, "y": np.full((6, 1), 3, np.uint8)}, do_compression=True)


def _png(path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path, "PNG")


def _onnx(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.random(s).astype(np.float32), n) for n, s in (("w", (4, 3)), ("b", (3,)))]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], alpha=1.0),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=1),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _pt2(path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).eval()
    sizes = ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(net, (torch.rand(2, 4),), dynamic_shapes=sizes), path)


def _skops(path: Path) -> None:
    import skops.io
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    skops.io.dump(make_pipeline(SimpleImputer(), forest).fit(*_rows()), path)


def _catboost(path: Path) -> None:
    import catboost

    model = catboost.CatBoostClassifier(iterations=4, depth=2, verbose=0, allow_writing_files=False, thread_count=1)
    model.fit(*_rows()).save_model(str(path))


def _xgboost(path: Path) -> None:
    import xgboost

    xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(*_rows()).save_model(path)


def _lightgbm(path: Path) -> None:
    import lightgbm

    model = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1, n_jobs=1)
    model.fit(*_rows()).booster_.save_model(path)


def _table(path: Path) -> None:
    import polars

    x, y = _rows()
    words = [("a", "b", "c")[int(v * 3)] for v in x[:, 0]]
    frame = polars.DataFrame({"one": x[:, 1], "two": (x[:, 2] * 9).astype(int), "words": words, "target": y})
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)


def _network(path: Path) -> None:
    save_network(make_model("mlp:4", (4,), 3), path, "mlp:4", (4,), 3)


def _ledger(path: Path) -> None:
    ledger = Ledger(path, budget=1000)
    ledger.reserve(ATTACK, [30, 7], explanations=4, work=90)
    ledger.close()


def _limits(path: Path) -> None:
    limits = LimitsFile(path, total=100)
    limits.take("a", limits.begin("a"), ATTACK, 30)
    limits.close()


def _log(path: Path) -> None:
    log = AnswerLog(path.parent)
    for ask in range(3):
        log.append(ask, bytes(16), {"probs": torch.rand(5, 3), "labels": torch.arange(5)})
    log.close()
    (path.parent / "answers.bin").rename(path)


def _read_log(path: Path) -> None:
    log = AnswerLog(path.rename(path.parent / "answers.bin").parent)
    try:
        for record in log.answers():
            log.read(record)
    finally:
        log.close()


def _read_sqlite(make: Callable[..., Any]) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        opened = make(path)
        if isinstance(opened, Ledger):
            opened.entry(ATTACK)
        else:
            opened.catch_up("a", ATTACK, 30)
        opened.close()

    return read


def _idx(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 5, 8, 8) + bytes(range(64)) * 5))


def _npz(path: Path) -> None:
    x, y = _rows()
    np.savez_compressed(path, x=x, y=y)


def _plan(path: Path) -> None:
    path.write_text('budget = 100\nseeds = [0, 1]\n[victim]\nsource = "own.py:net"\nlow = 0.0\nhigh = 1.0\n')


def _read_plan(path: Path) -> None:
    make_plan(read_plan(path))


def _results(path: Path) -> None:
    plan = {
        "victim": {"source": "leakmeter.demo:digits_victim"},
        "data": {"name": "digits"},
        "attacks": [{"name": "surrogate", "recipe": {"steps": 5}}],
        "views": ["labels"],
        "seeds": [0],
        "budget": 30,
    }
    made = audit(plan, out=path.parent, executor="inline").folder
    (made / "results.json").rename(path)
    shutil.rmtree(made)


def _report(path: Path) -> None:
    document_html(report_document(AuditResult.read(path), path.parent))


FORMATS: dict[str, Format] = {
    "idx": Format(".gz", _idx, lambda path: idx.parse(path.read_bytes(), "it", 3), in_gzip),
    "npz": Format(".npz", _npz, lambda path: npz.parse(path.read_bytes(), "it"), in_archive),
    "png": Format(".png", _png, lambda path: folder.parse(path.read_bytes(), "it"), in_png),
    "svhn .mat": Format(".mat", _mat, svhn.parse, in_mat),
    "csv": Format(".csv", _table, lambda path: table.load(path, "test", target="target")),
    "parquet": Format(".parquet", _table, lambda path: table.load(path, "test", target="target")),
    "safetensors": Format(".safetensors", _network, asked),
    "pt2": Format(".pt2", _pt2, asked, in_archive),
    "onnx": Format(".onnx", _onnx, asked),
    "skops": Format(".skops", _skops, asked, in_archive),
    "catboost": Format(".cbm", _catboost, asked),
    "xgboost json": Format(".json", _xgboost, asked),
    "xgboost ubj": Format(".ubj", _xgboost, asked),
    "lightgbm": Format(".txt", _lightgbm, asked),
    "ledger": Format(".sqlite", _ledger, _read_sqlite(lambda path: Ledger(path, budget=1000))),
    "limits": Format(".sqlite", _limits, _read_sqlite(lambda path: LimitsFile(path, total=100))),
    "answer log": Format(".bin", _log, _read_log),
    "checkpoint": Format(
        ".pt", lambda p: DiskCheckpoint(p).save({"w": torch.rand(50)}), lambda p: DiskCheckpoint(p).load()
    ),
    "plan": Format(".toml", _plan, _read_plan),
    "results": Format(".json", _results, _report),
}
