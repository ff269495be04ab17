"""A `.pt2` file made harmless before torch sees it.

`torch.export.load` runs code that is in a file: it unpickles sample inputs, weights and constants, evaluates size
expressions and guards, imports what a tree specification names, loads compiled libraries, and calls whatever function a
node names. So the archive is read here by a strict grammar: plain tensors, nodes that are operators of ATen, size
expressions of symbols and whole numbers. Sample inputs, guards and metadata are left out, since no answer depends on
them; anything else unknown is refused by name. What passes is packed anew, so that torch reads the bytes that were
checked and no others.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakmeter.errors import UsageError, first_line
from leakmeter.files import check_announced

_ENTRY = re.compile(
    r"(archive_format|archive_version|byteorder|version|\.data/(version|serialization_id|alignment)"
    r"|models/(?P<model>\w+)\.json|data/weights/(weight_\d+|(?P<weights>\w+)_weights_config\.json)"
    r"|data/constants/(tensor_\d+|(?P<constants>\w+)_constants_config\.json)|data/sample_inputs/(?P<samples>\w+)\.pt)"
)
_DROPPED = re.compile(r"\.data/|byteorder$|version$|data/sample_inputs/")
_KEPT = ("archive_format", "archive_version")
_TARGET = re.compile(
    r"torch\.ops\.(aten|prims)\.\w+\.\w+|torch\.sym_(max|min|int|float|not|ite|sum)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|math\.(floor|ceil|trunc)"
)
_FORBIDDEN = re.compile(r"torch\.ops\.aten\.(from_file|_?save\w*|_?load\w*|set_data|set_source\w*)\.")
_SYMBOLIC = re.compile(
    r"(?:\b(?:Symbol|Integer|Add|Mul|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|IntTrueDiv|ToFloat|TruncToInt)\("
    r"|'[su]\d+'|\b[su]\d+\b|\b(?:positive|nonnegative|integer)=(?:True|False)|\b\d{1,18}\b|[-(), ])+"
)
_NAME = re.compile(r"[\w.\[\]]*", re.ASCII)
_TREES = {"builtins.tuple", "builtins.list", "builtins.dict", None}
_REFUSED = {"as_custom_obj", "as_opaque", "as_operator", "as_script_object"}
_LONGEST_CODE = 1 << 26  # bytes of a program's JSON


def harmless_program(path: Path) -> io.BytesIO:
    """The file's program, packed anew from checked parts; UsageError for whatever could run code or is unknown."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = dict(_entries(archive, path))
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path} is not a torch.export program: {first_line(error)}") from error
    if not any(name.startswith("models/") for name in entries):
        raise UsageError(f"{path} is not a torch.export program of torch 2.8 or newer; export it again")
    return _packed({name: _checked(name, content, path) for name, content in entries.items()})


def _entries(archive: zipfile.ZipFile, path: Path) -> Iterator[tuple[str, bytes]]:
    infos = archive.infolist()
    check_announced(path, sum(info.file_size for info in infos))
    seen: set[str] = set()
    for info in infos:
        name = info.filename.partition("/")[2]
        if name in seen or not _ENTRY.fullmatch(name):
            raise _refused(path, f"it holds {info.filename!r}")
        seen.add(name)
        if name in _KEPT or not _DROPPED.search(name):
            yield name, archive.read(info)


def _checked(name: str, content: bytes, path: Path) -> bytes:
    if not name.endswith(".json"):
        return content
    if len(content) > _LONGEST_CODE:
        raise _refused(path, f"its {name} has {len(content):,} bytes")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its {name} is not JSON") from error
    try:
        if name.startswith("models/"):
            document["guards_code"] = []
        _walk(document, path)
    except (TypeError, AttributeError, RecursionError) as error:
        raise _refused(path, f"its {name} has an unknown form") from error
    return json.dumps(document).encode()


def _walk(node: Any, path: Path) -> None:
    if isinstance(node, list):
        for each in node:
            _walk(each, path)
    if not isinstance(node, dict):
        return
    if "target" in node and "inputs" in node and "outputs" in node:
        _check_target(node["target"], path)
        node["metadata"] = {}
    for key, value in node.items():
        if key in _REFUSED:
            raise _refused(path, f"it uses {key}")
        if key == "use_pickle" and value:
            raise _refused(path, "a tensor of it is pickled")
        if key == "expr_str" and not (isinstance(value, str) and len(value) < 200 and _SYMBOLIC.fullmatch(value)):
            raise _refused(path, f"a size of it is {value!r:.80}")
        if key in ("name", "as_name", "path_name") and isinstance(value, str) and not _NAME.fullmatch(value):
            raise _refused(path, f"something in it is called {value!r:.80}")
        if key in ("in_spec", "out_spec"):
            _check_tree(value, path)
        else:
            _walk(value, path)


def _check_target(target: object, path: Path) -> None:
    if not (isinstance(target, str) and _TARGET.fullmatch(target)) or _FORBIDDEN.match(target):
        raise _refused(path, f"it calls {target!r:.80}")


def _check_tree(text: object, path: Path) -> None:
    """A tree of tuples, lists and dicts: other kinds import what they name."""
    if not isinstance(text, str) or text == "":
        return

    def plain(node: Any) -> bool:
        if isinstance(node, dict) and "type" in node:
            context = node.get("context")
            return (
                node["type"] in _TREES
                and (context is None or isinstance(context, str | list))
                and all(plain(child) for child in node.get("children_spec", ()))
            )
        return isinstance(node, dict | int) or (isinstance(node, list) and all(plain(each) for each in node))

    try:
        fine = plain(json.loads(text))
    except (ValueError, RecursionError):
        fine = False
    if not fine:
        raise _refused(path, "its inputs or outputs are no plain tuples, lists or dicts")


def _packed(entries: dict[str, bytes]) -> io.BytesIO:
    from torch.export.pt2_archive._package import PT2ArchiveWriter

    buffer = io.BytesIO()
    with PT2ArchiveWriter(buffer) as writer:
        for name, content in entries.items():
            if name not in _KEPT:  # the writer adds these itself
                writer.write_bytes(name, content)
        models = [_ENTRY.fullmatch(name) for name in entries]
        for model in {found["model"] for found in models if found and found["model"]}:
            writer.write_bytes(f"data/sample_inputs/{model}.pt", b"")
    buffer.seek(0)
    return buffer


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is refused, since loading it could run code: {why}; give package.module:factory, which runs your own, "
        "or an .onnx file instead"
    )
