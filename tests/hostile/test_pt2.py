"""A `.pt2` file that would run code when torch loads it is refused; an honest one answers as before."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.victims.load import load_victim

BOX = {"low": 0.0, "high": 1.0}
Edit = Callable[[dict[str, bytes]], None]


class Mixed(nn.Module):
    """A network with what exports of real ones have: a parameter, a buffer, a constant, a size in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.dense = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2 * 36, 3)
        self.register_buffer("scale", torch.ones(3))
        self.shift = torch.ones(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.convolution(x)))
        return self.dense(x.view(x.shape[0], -1)) * self.scale + self.shift


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("honest") / "net.pt2"
    sizes = ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(Mixed().eval(), (torch.rand(2, 1, 8, 8),), dynamic_shapes=sizes), path)
    return path


def test_an_honest_program_answers_and_has_gradients(honest: Path) -> None:
    victim = load_victim(honest, **BOX)
    x = torch.rand(5, 1, 8, 8, requires_grad=True)
    expected = torch.export.load(honest).module()(x)
    answer = victim.white_box(x)
    assert torch.equal(answer, expected)
    assert torch.autograd.grad(answer.sum(), x)[0].abs().sum() > 0
    assert victim.spec.input_shape == (1, 8, 8)


def rewritten(honest: Path, target: Path, edit: Edit) -> Path:
    with zipfile.ZipFile(honest) as archive:
        entries = {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}
    edit(entries)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"net/{name}", content)
    return target


def edited(name: str, change: Callable[[Any], None]) -> Edit:
    def edit(entries: dict[str, bytes]) -> None:
        document = json.loads(entries[name])
        change(document)
        entries[name] = json.dumps(document).encode()

    return edit


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return _leave_mark, (self.mark, "")


def _leave_mark(path: str, _: str) -> tuple[()]:
    Path(path).touch()
    return ()


def pickled(mark: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Bomb(mark), buffer)
    return buffer.getvalue()


def first(document: dict[str, Any]) -> dict[str, Any]:
    return next(iter(document["config"].values()))


def sizes(document: Any) -> list[dict[str, Any]]:
    if isinstance(document, list):
        return [found for each in document for found in sizes(each)]
    if not isinstance(document, dict):
        return []
    own = [document] if "expr_str" in document else []
    return own + [found for each in document.values() for found in sizes(each)]


MODEL, WEIGHTS, CONSTANTS = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    ("data/constants/model_constants_config.json"),
)


def _node(document: Any) -> dict[str, Any]:
    return document["graph_module"]["graph"]["nodes"][0]


def crafted(mark: Path) -> dict[str, Edit]:
    """Every way known to run code from such a file."""
    call = f"__import__('pathlib').Path({str(mark)!r}).touch()"

    def weight(entries: dict[str, bytes]) -> None:
        edited(WEIGHTS, lambda document: first(document).update(use_pickle=True))(entries)
        entries["data/weights/weight_0"] = pickled(mark)

    def constant(entries: dict[str, bytes]) -> None:
        edited(CONSTANTS, lambda document: first(document).update(use_pickle=True))(entries)
        entries["data/constants/tensor_0"] = pickled(mark)

    def opaque(entries: dict[str, bytes]) -> None:
        edited(CONSTANTS, lambda document: first(document).update(path_name="opaque_obj_0", use_pickle=True))(entries)
        entries["data/constants/opaque_obj_0"] = pickle.dumps(Bomb(mark))

    def library(entries: dict[str, bytes]) -> None:
        entries["data/aotinductor/model/model.wrapper.so"] = b"\x7fELF"

    def tree(document: dict[str, Any]) -> None:
        context = {"default_factory_module": "antigravity", "default_factory_name": "fly", "dict_context": []}
        spec = [1, {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": []}]
        document["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps(spec)

    return {
        "weight": weight,
        "constant": constant,
        "opaque constant": opaque,
        "compiled library": library,
        "size": edited(MODEL, lambda document: sizes(document)[0].update(expr_str=call)),
        "hidden size": edited(
            MODEL, lambda document: sizes(document)[0].update(expr_str=f"Symbol('s0').__class__({call})")
        ),
        "target": edited(MODEL, lambda document: _node(document).update(target="torch.hub.load")),
        "file operator": edited(
            MODEL, lambda document: _node(document).update(target="torch.ops.aten.from_file.default")
        ),
        "name": edited(MODEL, lambda document: _node(document).update(name=f"x\n{call}\n")),
        "operator argument": edited(
            MODEL, lambda document: _node(document)["inputs"][0].update(arg={"as_operator": "torch.hub.load"})
        ),
        "tree": edited(MODEL, tree),
    }


@pytest.mark.parametrize("way", list(crafted(Path("x"))))
def test_a_file_that_would_run_code_is_refused_by_name(honest: Path, tmp_path: Path, way: str) -> None:
    mark = tmp_path / "ran"
    path = rewritten(honest, tmp_path / "evil.pt2", crafted(mark)[way])
    with pytest.raises(UsageError, match=r"refused, since loading it could run code: .*; give package\.module:factory"):
        load_victim(path, **BOX)
    assert not mark.exists()


@pytest.mark.parametrize("part", ["sample inputs", "guards"])
def test_what_no_answer_depends_on_is_never_opened(honest: Path, tmp_path: Path, part: str) -> None:
    mark = tmp_path / "ran"
    guard = f"__import__('pathlib').Path({str(mark)!r}).touch() or True"
    edits: dict[str, Edit] = {
        "sample inputs": lambda entries: entries.update({"data/sample_inputs/model.pt": pickled(mark)}),
        "guards": edited(MODEL, lambda document: document.update(guards_code=[guard])),
    }
    victim = load_victim(rewritten(honest, tmp_path / "evil.pt2", edits[part]), **BOX)
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(victim.white_box(x), load_victim(honest, **BOX).white_box(x))
    assert not mark.exists()


def test_the_same_name_twice_is_refused(honest: Path, tmp_path: Path) -> None:
    path = rewritten(honest, tmp_path / "evil.pt2", lambda entries: None)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/data/weights/weight_0", b"")
    with pytest.raises(UsageError, match="it holds 'net/data/weights/weight_0'"):
        load_victim(path, **BOX)


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKMETER_MAX_BYTES", "1000")
    with pytest.raises(UsageError, match=r"would take [\d,]+ bytes, and the limit is 1,000; .*LEAKMETER_MAX_BYTES="):
        load_victim(honest, **BOX)


@given(at=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_file_is_told_in_a_sentence(
    honest: Path, tmp_path_factory: pytest.TempPathFactory, at: float, value: int, cut: bool
) -> None:
    content = bytearray(honest.read_bytes())
    place = int(at * len(content))
    content[place] = value
    path = tmp_path_factory.mktemp("damaged") / "net.pt2"
    path.write_bytes(content[:place] if cut else content)
    with suppress(UsageError):
        load_victim(path, **BOX)
