"""`"package.module:factory"`: a victim made by the owner's own code, imported from the current folder or the path."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import FunctionType, ModuleType

from leakmeter.errors import UsageError, first_line
from leakmeter.registry import did_you_mean
from leakmeter.victims.kind import Request, VictimKind


class FactoryKind(VictimKind):
    """Texts that end in a colon and a name."""

    form = "package.module:factory"
    text = True

    def takes(self, source: object) -> bool:
        """Whether it names a place in a module."""
        return isinstance(source, str | Path) and str(source).rpartition(":")[2].isidentifier() and ":" in str(source)

    def open(self, source: object, request: Request) -> object:  # noqa: ARG002
        """What the factory makes."""
        return call_factory(str(source))


def call_factory(text: str) -> object:
    """What the function called `text` returns, or the thing itself where it is a model."""
    place, _, attribute = text.rpartition(":")
    module = _import(place)
    if not hasattr(module, attribute):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise UsageError(f"'{place}' has no '{attribute}'{did_you_mean(attribute, known)}")
    factory = getattr(module, attribute)
    if not isinstance(factory, type) and (hasattr(factory, "predict") or hasattr(factory, "state_dict")):
        return factory
    if not callable(factory):
        raise UsageError(f"expected '{text}' to be a function that returns the victim, got {type(factory).__name__}")
    if isinstance(factory, FunctionType) and (wanted := _wanted(factory)):
        raise UsageError(
            f"expected '{text}' to be a function without arguments that returns the model, got one that wants "
            f"{wanted}; if it is the model itself, name a function that returns it, such as "
            f"`def model(): return {attribute}`, and say --input-shape"
        )
    try:
        return factory()
    except (Exception, SystemExit, GeneratorExit) as error:
        raise UsageError(f"the factory '{text}' raised {type(error).__name__}: {first_line(error)}") from error


def _wanted(function: FunctionType) -> str:
    """The arguments that it cannot be called without."""
    given = inspect.signature(function).parameters.values()
    return ", ".join(
        each.name
        for each in given
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    )


def _import(place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _import_file(Path(place))
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.insert(0, here)
        return importlib.import_module(place)
    except UsageError:
        raise
    except ModuleNotFoundError as error:
        raise UsageError(f"cannot import '{place}' from here: {first_line(error)}") from error
    except (
        Exception,
        SystemExit,
        GeneratorExit,
    ) as error:  # a script that ends itself must not end the audit, let alone with 0
        raise UsageError(f"importing '{place}' raised {type(error).__name__}: {first_line(error)}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = f"leakmeter_victim_{path.stem}"  # a file called json.py must not take the place of a module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec.loader.exec_module(module)
    return module
