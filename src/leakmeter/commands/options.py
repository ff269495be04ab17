"""What the commands share: groups of flags, and how flags become a plan. Nothing heavy is imported here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from leakmeter.errors import UsageError
from leakmeter.shown import shown

KeyEnv = Annotated[str | None, typer.Option("--key-env", help="environment variable that holds the API key")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="where datasets are (or LEAKMETER_DATA)")]
Budget = Annotated[
    int | None, typer.Option("--budget", envvar="LEAKMETER_BUDGET", help="most queries an attack may ask")
]
Settings = Annotated[list[str] | None, typer.Option("--set", "-S", help="an option, such as recipe.steps=600")]
Seed = Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED")]
Out = Annotated[Path, typer.Option("--out", envvar="LEAKMETER_OUT", help="folder for run directories")]
Device = Annotated[str | None, typer.Option("--device", envvar="LEAKMETER_DEVICE", help="auto, cpu or cuda")]
Threads = Annotated[int | None, typer.Option("--threads", envvar="LEAKMETER_THREADS", help="torch threads")]
Display = Annotated[str | None, typer.Option("--display", envvar="LEAKMETER_DISPLAY", help="rich, plain or none")]


@dataclass(frozen=True)
class ModelFlags:
    """What may not be read off a model, and how its inputs are prepared."""

    input_shape: Annotated[
        str | None, typer.Option("--input-shape", help="shape of one input, 1,28,28, or its open sides, H=224,W=224")
    ] = None
    low: Annotated[str | None, typer.Option("--low", help="lowest input value, or one a column; -inf: unbounded")] = (
        None
    )
    high: Annotated[str | None, typer.Option("--high", help="highest input value, or one a column")] = None
    classes: Annotated[str | None, typer.Option("--classes", help="number of classes, or their names: cat,dog")] = None
    outputs: Annotated[
        str | None, typer.Option("--outputs", help="what the victim returns: logits, probs or labels")
    ] = None
    output: Annotated[str | None, typer.Option("--output", help="which output to read, where it has several")] = None
    fix: Annotated[
        list[str] | None, typer.Option("--fix", help="what another input of an .onnx file holds: NAME=0.0")
    ] = None
    layout: Annotated[str | None, typer.Option("--layout", help="nchw or nhwc: channels first or last")] = None
    scale: Annotated[float | None, typer.Option("--scale", help="the model takes raw values times this")] = None
    mean: Annotated[str | None, typer.Option("--mean", help="then less this, one number or one a channel")] = None
    std: Annotated[str | None, typer.Option("--std", help="then divided by this")] = None
    resize: Annotated[str | None, typer.Option("--resize", help="height,width that the model takes")] = None
    dtype: Annotated[str | None, typer.Option("--dtype", help="the numbers the model takes, such as uint8")] = None

    def section(self, source: str | None) -> dict[str, Any]:
        """`[victim]` of a plan."""
        shape = self.input_shape or ""
        return {
            "source": source,
            "input_shape": None if "=" in shape else (shape and numbers("--input-shape", shape)) or None,
            "sizes": sizes("--input-shape", shape) if "=" in shape else None,
            "low": self.low and decimals("--low", self.low),
            "high": self.high and decimals("--high", self.high),
            "classes": self.classes and _classes(self.classes),
            "outputs": self.outputs,
            "output": self.output,
            "inputs": self.fix and settings(self.fix, flag="--fix"),
            "layout": self.layout,
            "scale": self.scale,
            "mean": self.mean and decimals("--mean", self.mean),
            "std": self.std and decimals("--std", self.std),
            "resize": self.resize and numbers("--resize", self.resize),
            "dtype": self.dtype,
        }


@dataclass(frozen=True)
class VictimFlags:
    """Which model, and how to ask it if it is behind an API."""

    victim: Annotated[
        str | None,
        typer.Option(
            "--victim",
            envvar="LEAKMETER_VICTIM",
            help="package.module:factory, file.py:factory, .pt2, .onnx, .json, .ubj, .txt, .cbm, .skops, http://…",
        ),
    ] = None
    authorized_by: Annotated[
        str | None,
        typer.Option("--authorized-by", help="who allowed the audit; needed for a victim on another machine"),
    ] = None
    key_env: KeyEnv = None
    rps: Annotated[float | None, typer.Option("--rps", help="most requests a second to a remote victim")] = None
    concurrency: Annotated[int | None, typer.Option("--concurrency", help="most requests to it at once")] = None
    rows: Annotated[int | None, typer.Option("--rows", help="most rows in a request to it")] = None

    def section(self, model: ModelFlags) -> dict[str, Any]:
        """`[victim]` of a plan."""
        remote = {
            "authorized_by": self.authorized_by,
            "key_env": self.key_env,
            "rps": self.rps,
            "concurrency": self.concurrency,
            "rows": self.rows,
        }
        return {**model.section(self.victim), "remote": remote}


@dataclass(frozen=True)
class DataFlags:
    """The owner's test data."""

    data: Annotated[
        str | None,
        typer.Option(
            "--data", envvar="LEAKMETER_TEST_DATA", help="test data: a name, an .npz, .csv or .parquet, a folder"
        ),
    ] = None
    target_column: Annotated[str | None, typer.Option("--target-column", help="of a table: its classes")] = None
    data_dir: DataDir = None

    def section(self, limit: int | None = None) -> dict[str, Any]:
        """`[data]` of a plan."""
        place = self.data_dir and str(self.data_dir)
        return {"name": self.data, "dir": place, "limit": limit, "target": self.target_column}


@dataclass(frozen=True)
class RunFlags:
    """Where a run directory is made, or which one to go on with, and how it computes."""

    out: Out = Path("runs")
    resume: Annotated[Path | None, typer.Option("--resume", help="go on with this run directory")] = None
    device: Device = None
    threads: Threads = None
    display: Display = None

    def section(self) -> dict[str, Any]:
        """What a plan says of it."""
        return {"device": self.device and device(self.device), "threads": self.threads}


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with flags in place of its groups of flags: typer knows no dataclasses."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            kinds = get_type_hints(groups[name], include_extras=True)
            flags = [(field.name, field.default, kinds[field.name]) for field in fields(groups[name])]
        else:
            flags = [(name, parameter.default, hints[name])]
        parameters += [inspect.Parameter(flag, parameter.KEYWORD_ONLY, default=d, annotation=t) for flag, d, t in flags]

    def run(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def refuse_beside_resume(context: typer.Context, *allowed: str) -> None:
    """For a command whose resumed run has all its settings: a flag that would be ignored is a mistake."""
    for flag in context.command.params:
        source = context.get_parameter_source(flag.name or "")
        told = source is not None and source.name == "COMMANDLINE"
        if told and flag.name not in (*allowed, "resume", "display"):
            raise UsageError(f"--resume goes on with the settings of its run; leave out {flag.opts[0]}, or start anew")


def say(text: object) -> None:
    """A line on standard output."""
    typer.echo(shown(str(text)))


def display(mode: str | None) -> Any:
    """What shows progress."""
    from leakmeter.display import make_display

    return make_display(mode)


def device(name: str) -> str:
    """A device that works here; `auto` takes a GPU where there is one."""
    import torch

    from leakmeter.compute import check_device

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    check_device(name)
    return name


def numbers(flag: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"expected {flag} to be whole numbers with commas between, got '{text}'") from error


def decimals(flag: str, text: str) -> float | list[float]:
    """A number, or several with commas between them."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"expected {flag} to be a number, or several with commas between, got '{text}'") from error
    return found[0] if len(found) == 1 else found


def sizes(flag: str, text: str) -> dict[str, int]:
    """`H=224,W=224` by name."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {name.strip(): int(size) for name, _, size in pairs}
    except ValueError as error:
        raise UsageError(f"expected {flag} to be like 3,224,224 or like H=224,W=224, got '{text}'") from error


def _classes(text: str) -> int | list[str]:
    """How many, or their names."""
    return int(text) if text.strip().lstrip("-").isdecimal() else [name.strip() for name in text.split(",")]


def settings(pairs: list[str] | None, data_dir: Path | None = None, flag: str = "--set") -> dict[str, Any]:
    """`recipe.steps=600` as nested keys; a value is read as TOML, or as text where it is not."""
    import tomllib

    tree: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"expected {flag} KEY=VALUE, got '{pair}'")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, KeyError):
            value = text
        except RecursionError as error:
            raise UsageError(f"expected a value for --set {key} that is nested less deep") from error
        *parents, last = key.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise UsageError(f"expected --set {parent} as a value or as a section with {key} in it, got both")
        if isinstance(place.get(last), dict) and not isinstance(value, dict):
            raise UsageError(f"expected --set {key} as a value or as a section, got both")
        place[last] = value
    if data_dir is not None and "pool" in tree:
        tree.setdefault("data_dir", str(data_dir))
    return tree


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """Only what was really given: the rest must not override the plan."""
    kept = {key: given(value) if isinstance(value, dict) else value for key, value in flags.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, section by section."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged
