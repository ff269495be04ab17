"""A kind of source that `load_victim` takes: which sources, and how they are opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from leakmeter.errors import UsageError
from leakmeter.victims import VICTIMS
from leakmeter.victims.facts import Facts
from leakmeter.victims.remote.pace import Share
from leakmeter.victims.remote.settings import RemoteSettings
from leakmeter.victims.victim import Victim

_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".joblib", ".bin", ".ckpt")


@dataclass(frozen=True, eq=False)
class Request:
    """What the caller of `load_victim` said besides the source."""

    facts: Facts
    device: torch.device | str = "cpu"
    remote: RemoteSettings | None = None
    share: Share | None = None


class VictimKind(ABC):
    """One kind of source."""

    form: ClassVar[str]
    """How a sentence names it: "an .onnx file"."""
    text: ClassVar[bool] = False
    """Whether it is named by a text or a path, as on the command line."""
    remote: ClassVar[bool] = False
    """Whether `remote=` settings are for it."""

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
    if isinstance(opened, str | Path):
        raise UsageError(f"expected {source} to give a model, got the text '{opened}'")
    return open_source(opened, request)


def _unknown(source: object, kinds: list[VictimKind]) -> UsageError:
    text = isinstance(source, str | Path)
    *names, last = [kind.form for kind in kinds if kind.text or not text]
    known = f"{', '.join(names)} or {last}"
    if str(source).lower().endswith(_PICKLES):
        return UsageError(
            f"{source} may be a pickle, and opening one runs whatever code is in it; give {known} instead"
        )
    got = f"'{source}'" if text else type(source).__name__
    return UsageError(f"expected {known} as the victim, got {got}")
