"""A kind of source that `load_victim` takes: which sources, and how they are opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from leakmeter.errors import UsageError
from leakmeter.files import check_announced
from leakmeter.victims import VICTIMS
from leakmeter.victims.facts import Facts
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.victim import Victim

_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".joblib", ".bin", ".ckpt")


@dataclass(frozen=True, eq=False)
class Ends:
    """Which output of a model with several is read, and what its other inputs hold."""

    output: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sides that the model leaves open, by name."""

    def refuse_beyond(self, known: Sequence[str], source: object) -> None:
        """Says so where something was given that this kind of source has no use for."""
        for name in ("output", "inputs", "sizes"):
            if getattr(self, name) and name not in known:
                raise UsageError(f"expected {name} only for an .onnx file{_OR_SERVER[name]}, got it for {source}")

    def beyond(self, used: Sequence[str]) -> Ends:
        """What is left for the kind that goes on with an opened source."""
        return replace(self, **{name: getattr(_NOTHING, name) for name in used})


_NOTHING = Ends()
_OR_SERVER = {"output": ", an http:// address or a model that returns several", "inputs": "", "sizes": ""}


@dataclass(frozen=True, eq=False)
class Request:
    """What the caller of `load_victim` said besides the source."""

    facts: Facts
    device: torch.device | str = "cpu"
    remote: RemoteSettings | None = None
    share: Share | None = None
    ends: Ends = Ends()


class VictimKind(ABC):
    """One kind of source."""

    form: ClassVar[str]
    """How a sentence names it: "an .onnx file"."""
    text: ClassVar[bool] = False
    """Whether it is named by a text or a path, as on the command line."""
    remote: ClassVar[bool] = False
    """Whether `remote=` settings are for it."""
    ends: ClassVar[tuple[str, ...]] = ()
    """Which of `output`, `inputs` and `sizes` it has a use for."""

    @abstractmethod
    def takes(self, source: object) -> bool:
        """Whether `open` can make something of the source."""

    @abstractmethod
    def open(self, source: object, request: Request) -> object:
        """The victim, or an object that another kind takes: a file of a network gives the network."""


class FileKind(VictimKind):
    """Files known by how their names end."""

    text = True
    suffixes: ClassVar[tuple[str, ...]]

    def takes(self, source: object) -> bool:
        """Whether it is the path of such a file."""
        return isinstance(source, str | Path) and str(source).lower().endswith(self.suffixes)

    def open(self, source: object, request: Request) -> object:
        """What `read` makes of the file."""
        path = Path(str(source))
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        check_announced(path, path.stat().st_size)
        return self.read(path, request)

    @abstractmethod
    def read(self, path: Path, request: Request) -> object:
        """What is in the file, which exists: a module, a function on arrays, or the victim itself."""


def open_source(source: object, request: Request) -> Victim:
    """The victim, opened by the kind that takes the source; what that makes of it may be for another kind."""
    if isinstance(source, Victim):
        return source
    kinds = [VICTIMS[name]() for name in VICTIMS]
    kind = next((kind for kind in reversed(kinds) if kind.takes(source)), None)
    if kind is None:
        raise _unknown(source, kinds)
    if request.remote is not None and not kind.remote:
        raise UsageError("expected remote settings only for an http:// address or a .toml description")
    opened = kind.open(source, request)
    if isinstance(opened, Victim):
        request.ends.refuse_beyond(kind.ends, source)
        return opened
    if isinstance(opened, str | Path):
        raise UsageError(f"expected {source} to give a model, got the text '{opened}'")
    if isinstance(opened, type):
        raise UsageError(f"expected {source} to give a model, got the class {opened.__name__}: make one in a function")
    return open_source(opened, replace(request, ends=request.ends.beyond(kind.ends)))


_FACTORY = (
    ", for example own.py:model where own.py holds the two lines `import joblib` and `def model(): return "
    "joblib.load('model.joblib')` (torch.load and the network for weights), if you trust the file"
)


def _unknown(source: object, kinds: list[VictimKind]) -> UsageError:
    text = isinstance(source, str | Path)
    *names, last = [kind.form for kind in kinds if kind.text or not text]
    known = f"{', '.join(names)} or {last}"
    if str(source).lower().endswith(_PICKLES):
        return UsageError(
            f"{source} may be a pickle, and opening one runs whatever code is in it; give {known} instead{_FACTORY}"
        )
    got = f"'{source}'" if text else type(source).__name__
    if str(source).lower().endswith(".py"):
        got += f"; name the function in it that makes the model, such as {source}:model"
    return UsageError(f"expected {known} as the victim, got {got}")
