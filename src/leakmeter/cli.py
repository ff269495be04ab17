"""The command line. Nothing heavy is imported until a command runs.

Exit codes: 0 pass, 1 internal error, 2 usage or config, 3 policy exceeded, 4 inconclusive, 130 interrupted.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from leakmeter import __version__
from leakmeter.commands import audit, certify, data, evade, init, options, probe, runs, serve, study, train, watch
from leakmeter.errors import Inconclusive, LeakmeterError, Stopped, first_line
from leakmeter.patience import overdue
from leakmeter.shown import shown

_TRACEBACK = "LEAKMETER_TRACEBACK"

app = typer.Typer(
    name="leakmeter",
    help="Measures how much of a machine-learning model leaks through its API. For models you own or may test.",
    epilog="Exit codes: 0 pass, 1 internal error, 2 usage, 3 policy exceeded, 4 inconclusive, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Datasets: what is here, and how to get the rest.", no_args_is_help=True)


def _guarded(command: Callable[..., int | None]) -> Callable[..., None]:
    """The last line of defence: a command ends with the code it returns, and whatever else ends it is an error.

    A victim's code runs in this process, and must not end it with a code that looks like a pass.
    """

    @functools.wraps(command)
    def run(**flags: Any) -> None:
        try:
            code = command(**flags)
        except Stopped as error:
            typer.echo(f"leakmeter: {error}", err=True)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            typer.echo("leakmeter: interrupted", err=True)
            raise typer.Exit(Stopped.exit_code) from error
        except (SystemExit, GeneratorExit, typer.Exit) as error:
            raise LeakmeterError(
                f"{type(error).__name__} ended the command before it was done: nothing was decided; look into the "
                "code of the victim"
            ) from error
        raise typer.Exit(code or 0)

    return run


_COMMANDS: dict[str, Callable[..., int | None]] = {
    "demo": audit.demo,
    "audit": audit.audit,
    "extract": audit.extract,
    "evade": evade.evade,
    "certify": certify.certify,
    "train": train.train,
    "probe": probe.probe,
    "watch": watch.watch,
    "serve": serve.serve,
    "study": study.study,
    "report": runs.report,
    "compare": runs.compare,
    "init": init.init,
    "ls": runs.list_runs,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_guarded(options.spread(_command)))
data_app.command("ls")(_guarded(options.spread(data.data_ls)))
data_app.command("fetch")(_guarded(options.spread(data.data_fetch)))
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="show the version")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def _end_if_overdue() -> None:
    """Ends this process when a victim's code can be ended in no other way; what was paid for is on disk."""
    while (late := overdue()) is None:
        time.sleep(1.0)
    os.write(2, f"leakmeter: {late}\n".encode())
    os._exit(Inconclusive.exit_code)


def _end_loudly(end: Callable[[int], Any], process: int, code: int) -> None:
    """In place of `os._exit`: whoever ends this process at once, past all that catches, does not end it as a pass."""
    if code == 0 and os.getpid() == process:
        os.write(
            2,
            b"leakmeter: os._exit ended the command before it was done: nothing was decided; look into the code of "
            b"the victim\n",
        )
        code = LeakmeterError.exit_code
    end(code)


def main() -> None:
    """The entry point: a mistake of the user's is one sentence, never a traceback."""
    os._exit = functools.partial(_end_loudly, os._exit, os.getpid())  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever stops a service is told how to go on, too
    threading.Thread(target=_end_if_overdue, daemon=True).start()
    try:
        app()
    except LeakmeterError as error:
        typer.echo(f"leakmeter: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        typer.echo(shown(f"leakmeter: {error.filename or 'the system'}: {error.strerror or error}"), err=True)
        sys.exit(2)
    except Exception as error:  # a fault of ours, or of a file or machine in a way nobody thought of
        if os.environ.get(_TRACEBACK):
            raise
        typer.echo(
            shown(
                f"leakmeter: internal error: {type(error).__name__}: {first_line(error)}; nothing was decided; "
                f"{_TRACEBACK}=1 shows where"
            ),
            err=True,
        )
        sys.exit(LeakmeterError.exit_code)
