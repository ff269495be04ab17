"""The command line: flags in, one call into the library, an exit code out. Nothing heavy is imported until needed.

Exit codes: 0 pass, 1 internal error, 2 usage or config, 3 policy exceeded, 4 inconclusive, 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leakmeter import __version__
from leakmeter.errors import LeakmeterError, UsageError

app = typer.Typer(
    name="leakmeter",
    help="Measures how much of a machine-learning model leaks through its API. For models you own or may test.",
    epilog="Exit codes: 0 pass, 1 internal error, 2 usage, 3 policy exceeded, 4 inconclusive, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Datasets: what is here, and how to get the rest.", no_args_is_help=True)
app.add_typer(data_app, name="data")

Victim = Annotated[
    str | None,
    typer.Option("--victim", envvar="LEAKMETER_VICTIM", help="package.module:factory, file.py:factory, .pt2 or .onnx"),
]
InputShape = Annotated[str | None, typer.Option("--input-shape", help="shape of one input, such as 1,28,28")]
Low = Annotated[float | None, typer.Option("--low", help="lowest input value; -inf: unbounded")]
High = Annotated[float | None, typer.Option("--high", help="highest input value; inf: unbounded")]
Classes = Annotated[int | None, typer.Option("--classes", help="number of output columns")]
Outputs = Annotated[str | None, typer.Option("--outputs", help="what the victim returns: logits, probs or labels")]
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
Executor = Annotated[str, typer.Option("--executor", envvar="LEAKMETER_EXECUTOR", help="local or local:N processes")]
Display = Annotated[str | None, typer.Option("--display", envvar="LEAKMETER_DISPLAY", help="rich, plain or none")]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="show the version")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def demo(out: Out = Path("runs"), display: Display = None) -> None:
    """A whole small audit on embedded data."""
    from leakmeter.audit import audit as run_audit
    from leakmeter.demo import PLAN

    _conclude(run_audit(PLAN, out=out, progress=_display(display)))


@app.command()
def audit(
    plan: Annotated[Path | None, typer.Argument(help="a TOML plan; flags override it")] = None,
    victim: Victim = None,
    data: Data = None,
    data_dir: DataDir = None,
    view: Annotated[list[str] | None, typer.Option("--view", help="labels, top:K, probs, probs:D, logits")] = None,
    attack: Annotated[list[str] | None, typer.Option("--attack", help="an attack by name; repeat for more")] = None,
    defense: Annotated[list[str] | None, typer.Option("--defense", help="a defense; repeat for more")] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="repeat for several seeds")] = None,
    budget: Budget = None,
    input_shape: InputShape = None,
    low: Low = None,
    high: High = None,
    classes: Classes = None,
    outputs: Outputs = None,
    name: Annotated[str | None, typer.Option("--name", help="what to call the run")] = None,
    out: Out = Path("runs"),
    resume: Resume = None,
    device: Device = None,
    threads: Threads = None,
    executor: Executor = "local",
    display: Display = None,
) -> None:
    """Audits a model: attacks it, judges the copies, writes a report. Only audit models you own or may test."""
    from leakmeter.audit import audit as run_audit
    from leakmeter.plan import make_plan

    flags: dict[str, Any] = {
        "name": name,
        "victim": _victim_flags(victim, input_shape, low, high, classes, outputs),
        "data": {"name": data, "dir": data_dir and str(data_dir)},
        "views": view,
        "attacks": attack and [{"name": each} for each in attack],
        "defenses": defense,
        "seeds": seed,
        "budget": budget,
        "device": device and _device(device),
        "threads": threads,
    }
    content = _merge(_base_plan(plan, resume), _given(flags))
    _conclude(run_audit(make_plan(content), out=out, resume=resume, executor=executor, progress=_display(display)))


@app.command()
def extract(
    attack: Annotated[str, typer.Argument(help="surrogate, dfme, codfe, dast, procedural, gradients, exact, ...")],
    victim: Victim = None,
    view: Annotated[str | None, typer.Option("--view", help="labels, top:K, probs, probs:D, logits, +gradient")] = None,
    budget: Budget = None,
    stops: Annotated[str | None, typer.Option("--stops", help="query counts for the curve, such as 100,1000")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", "-S", help="an option, such as pool=mnist")] = None,
    defense: Annotated[str | None, typer.Option("--defense", help="a defense around the victim")] = None,
    data: Data = None,
    data_dir: DataDir = None,
    input_shape: InputShape = None,
    low: Low = None,
    high: High = None,
    classes: Classes = None,
    outputs: Outputs = None,
    seed: Annotated[int | None, typer.Option("--seed", envvar="LEAKMETER_SEED")] = None,
    out: Out = Path("runs"),
    resume: Resume = None,
    device: Device = None,
    threads: Threads = None,
    display: Display = None,
) -> None:
    """Copies a model with one attack and writes a full run directory."""
    from leakmeter.audit import audit as run_audit
    from leakmeter.plan import make_plan

    flags: dict[str, Any] = {
        "name": None if resume else f"extract-{attack}",
        "victim": _victim_flags(victim, input_shape, low, high, classes, outputs),
        "data": {"name": data, "dir": data_dir and str(data_dir)},
        "views": view and [view],
        "attacks": None if resume and not settings else [{"name": attack, **_settings(settings or [], data_dir)}],
        "defenses": defense and [defense],
        "seeds": None if resume and seed is None else [seed or 0],
        "budget": budget,
        "stops": stops and _numbers("--stops", stops),
        "device": device and _device(device),
        "threads": threads,
    }
    base = _base_plan(None, resume) or {"views": ["probs"]}
    _conclude(run_audit(make_plan(_merge(base, _given(flags))), out=out, resume=resume, progress=_display(display)))


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="a study; without one, their names")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for its JSON and figures (results/NAME)")] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="LEAKMETER_SEED", help="the first seed")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="how many seeds")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="a small version that shows the shape only")] = False,
    data_dir: DataDir = None,
    device: Device = None,
    threads: Threads = None,
    display: Display = None,
) -> None:
    """Runs one of the papers' experiments, or ours, and writes its numbers and figure."""
    from leakmeter.studies import STUDIES

    if name is None:
        typer.echo("\n".join(STUDIES))
        raise typer.Exit
    import torch

    torch.set_num_threads(threads or 1)
    torch.set_flush_denormal(True)
    folder = out or Path("results") / name
    settings = {"seed": seed, "seeds": seeds, "quick": quick, "data_dir": data_dir, "device": _device(device or "cpu")}
    STUDIES[name](folder, **settings, progress=_display(display))
    typer.echo(folder)


@app.command("ls")
def list_runs(out: Out = Path("runs")) -> None:
    """Lists the runs in a folder."""
    from leakmeter.runs.listing import list_runs as rows

    for row in rows(out):
        typer.echo(row)


@app.command()
def report(run: Annotated[Path, typer.Argument(help="a run directory, or its results.json")]) -> None:
    """Rebuilds the reports of a run, without the victim."""
    from leakmeter.report.write import write_reports
    from leakmeter.results import AuditResult

    folder = run if run.is_dir() else run.parent
    write_reports(AuditResult.read(run), folder)
    typer.echo(folder / "report.html")


@data_app.command("ls")
def data_ls(data_dir: DataDir = None) -> None:
    """Says which datasets are here, and how to get the rest."""
    from leakmeter.data.catalogue import listing

    for row in listing(data_dir):
        typer.echo(
            f"{row.name:14} {row.split:6} {row.found:>7,} of {row.published:>7,}  {row.where}  {row.note}".rstrip()
        )


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist, cifar10, cifar100 or svhn")],
    data_dir: DataDir = None,
    display: Display = None,
) -> None:
    """Downloads a dataset and checks what came."""
    from leakmeter.data.fetch import fetch

    typer.echo(fetch(name, data_dir=data_dir, progress=_display(display)))


def main() -> None:
    """The entry point: a mistake of the user's is one sentence, never a traceback."""
    try:
        app()
    except LeakmeterError as error:
        typer.echo(f"leakmeter: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        typer.echo(f"leakmeter: {error.filename or 'the system'}: {error.strerror or error}", err=True)
        sys.exit(2)


def _conclude(result: Any) -> None:
    """Prints the verdict and leaves with its exit code."""
    from leakmeter.report.text import verdict_text

    typer.echo(verdict_text(result))
    raise typer.Exit(result.exit_code)


def _display(mode: str | None) -> Any:
    from leakmeter.display import make_display

    return make_display(mode)


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"the device '{name}' cannot be used here; try --device cpu") from error
    return name


def _victim_flags(
    source: str | None,
    input_shape: str | None,
    low: float | None,
    high: float | None,
    classes: int | None,
    outputs: str | None,
) -> dict[str, Any]:
    shape = _numbers("--input-shape", input_shape) if input_shape else None
    return {
        "source": source,
        "input_shape": shape,
        "low": low,
        "high": high,
        "classes": classes,
        "outputs": outputs,
    }


def _numbers(flag: str, text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"expected {flag} to be whole numbers with commas between, got '{text}'") from error


def _settings(pairs: list[str], data_dir: Path | None) -> dict[str, Any]:
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


def _base_plan(plan: Path | None, resume: Path | None) -> dict[str, Any]:
    if plan is not None:
        from leakmeter.plan import read_plan

        return read_plan(plan)
    if resume is not None:
        from leakmeter.runs.run import Run

        return Run.open(resume).plan
    return {}


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """Only what was really given: the rest must not override the plan."""
    kept = {key: _given(value) if isinstance(value, dict) else value for key, value in flags.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
