"""What the commands share: their options, and how flags become a plan. Nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leakmeter.errors import UsageError

Victim = Annotated[
    str | None,
    typer.Option(
        "--victim", envvar="LEAKMETER_VICTIM", help="package.module:factory, file.py:factory, .pt2, .onnx or http://…"
    ),
]
InputShape = Annotated[str | None, typer.Option("--input-shape", help="shape of one input, such as 1,28,28")]
Low = Annotated[float | None, typer.Option("--low", help="lowest input value; -inf: unbounded")]
High = Annotated[float | None, typer.Option("--high", help="highest input value; inf: unbounded")]
Classes = Annotated[int | None, typer.Option("--classes", help="number of output columns")]
Outputs = Annotated[str | None, typer.Option("--outputs", help="what the victim returns: logits, probs or labels")]
AuthorizedBy = Annotated[
    str | None,
    typer.Option("--authorized-by", help="who allowed the audit; needed for a victim on another machine"),
]
KeyEnv = Annotated[str | None, typer.Option("--key-env", help="environment variable that holds the API key")]
Rps = Annotated[float | None, typer.Option("--rps", help="most requests a second to a remote victim")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", help="most requests to it at once")]
Data = Annotated[
    str | None, typer.Option("--data", envvar="LEAKMETER_TEST_DATA", help="test data: a name, an .npz, an image folder")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="where datasets are (or LEAKMETER_DATA)")]
Budget = Annotated[
    int | None, typer.Option("--budget", envvar="LEAKMETER_BUDGET", help="most queries an attack may ask")
]
Out = Annotated[Path, typer.Option("--out", envvar="LEAKMETER_OUT", help="folder for run directories")]
Resume = Annotated[Path | None, typer.Option("--resume", help="go on with this run directory")]
Device = Annotated[str | None, typer.Option("--device", envvar="LEAKMETER_DEVICE", help="auto, cpu or cuda")]
Threads = Annotated[int | None, typer.Option("--threads", envvar="LEAKMETER_THREADS", help="torch threads")]
Executor = Annotated[
    str, typer.Option("--executor", envvar="LEAKMETER_EXECUTOR", help="where: local, local:N, ray or ray:ADDRESS")
]
Display = Annotated[str | None, typer.Option("--display", envvar="LEAKMETER_DISPLAY", help="rich, plain or none")]


def display(mode: str | None) -> Any:
    """What shows progress."""
    from leakmeter.display import make_display

    return make_display(mode)


def device(name: str) -> str:
    """A device that works here; `auto` takes a GPU where there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"the device '{name}' cannot be used here; try --device cpu") from error
    return name


def victim_flags(given: dict[str, Any]) -> dict[str, Any]:
    """The victim's section of a plan, from a command's own arguments, its `locals()`."""
    shape = given.get("input_shape")
    return {
        "source": given["victim"],
        "input_shape": numbers("--input-shape", shape) if shape else None,
        **{name: given.get(name) for name in ("low", "high", "classes", "outputs")},
        "remote": {name: given.get(name) for name in ("authorized_by", "key_env", "rps", "concurrency")},
    }


def numbers(flag: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"expected {flag} to be whole numbers with commas between, got '{text}'") from error


def settings(pairs: list[str], data_dir: Path | None) -> dict[str, Any]:
    """`recipe.steps=600` as nested keys; a value is read as TOML, or as text where it is not."""
    import tomllib

    tree: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"expected --set KEY=VALUE, got '{pair}'")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        *parents, last = key.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    if data_dir is not None and "pool" in tree:
        tree.setdefault("data_dir", str(data_dir))
    return tree


def base_plan(plan: Path | None, resume: Path | None) -> dict[str, Any]:
    """What flags override: the plan given, or that of the run to go on with."""
    if plan is not None:
        from leakmeter.plan import read_plan

        return read_plan(plan)
    if resume is not None:
        from leakmeter.runs.run import Run

        return Run.open(resume).plan
    return {}


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


def conclude(result: Any) -> None:
    """Prints the verdict and leaves with its exit code."""
    from leakmeter.report.text import verdict_text

    typer.echo(verdict_text(result))
    raise typer.Exit(result.exit_code)


def set_threads(threads: int | None) -> None:
    """Torch's threads, one unless said otherwise: results are the same bit for bit only for the same number."""
    import torch

    torch.set_num_threads(threads or 1)
    torch.set_flush_denormal(True)
