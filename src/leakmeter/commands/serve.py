"""`leakmeter serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from leakmeter.commands import options


def serve(
    victim: Annotated[str, typer.Argument(help="package.module:factory, file.py:factory, .pt2 or .onnx")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    key_env: options.KeyEnv = None,
    rate: Annotated[float | None, typer.Option("--rate", help="most requests a second")] = None,
    *,
    model: options.ModelFlags,
) -> None:
    """Serves a model on this machine, in the Open Inference Protocol."""
    from leakmeter.plan import make_plan
    from leakmeter.serve import serve as run_server
    from leakmeter.serve.model import Served
    from leakmeter.victims.load import load_victim

    plan = make_plan({"victim": options.given(model.section(victim))})
    opened = load_victim(victim, **plan.victim.keywords())
    options.say(f"the model: http://127.0.0.1:{port}/v2/models/{Served(opened).name}")
    run_server(opened, port=port, key_env=key_env, rate=rate)
