"""The command line. Nothing heavy is imported until a command runs.

Exit codes: 0 pass, 1 internal error, 2 usage or config, 3 policy exceeded, 4 inconclusive, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from leakmeter import __version__
from leakmeter.commands import audit, certify, data, evade, init, runs, serve, study, train
from leakmeter.errors import LeakmeterError

app = typer.Typer(
    name="leakmeter",
    help="Measures how much of a machine-learning model leaks through its API. For models you own or may test.",
    epilog="Exit codes: 0 pass, 1 internal error, 2 usage, 3 policy exceeded, 4 inconclusive, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    audit.demo,
    audit.audit,
    audit.extract,
    evade.evade,
    certify.certify,
    train.train,
    serve.serve,
    study.study,
    runs.report,
    runs.compare,
    init.init,
):
    app.command()(command)
app.command("ls")(runs.list_runs)
data_app = typer.Typer(help="Datasets: what is here, and how to get the rest.", no_args_is_help=True)
data_app.command("ls")(data.data_ls)
data_app.command("fetch")(data.data_fetch)
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="show the version")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


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
