"""`leakmeter probe`: what a server says of its model, what one answer looks like, and the plan that would audit it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakmeter.commands import options
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from leakmeter.victims.facts import Facts

_PATIENCE = 10.0  # seconds for an answer: somebody sits before it


def probe(
    url: Annotated[str, typer.Argument(help="http://…/v2/models/NAME, …/v1/models/NAME:predict, or a .toml file")],
    *,
    authorized_by: Annotated[str | None, typer.Option("--authorized-by", help="who allowed it")] = None,
    key_env: options.KeyEnv = None,
    model: options.ModelFlags,
) -> None:
    """Shows what a server says of its model, asks it one row, and prints the plan that would audit it."""
    from leakmeter.victims.remote.client import SLACK
    from leakmeter.victims.remote.settings import make_settings
    from leakmeter.victims.remote.wire import connect

    section = options.given(model.section(url))
    limits = {"retries": 0, "timeout": _PATIENCE}
    settings = make_settings(options.given({"authorized_by": authorized_by, "key_env": key_env}) | limits)
    classes = section.get("classes")
    client, wire = connect(url, settings, section.get("output"), tuple(classes) if isinstance(classes, list) else None)
    for line in _said(wire.facts):
        typer.echo(line)
    shape = section.get("input_shape") or wire.facts.input_shape
    if shape is None:
        raise UsageError("the server does not say the shape of its inputs; pass --input-shape, such as 1,28,28")
    row = wire.encode(_one_row(tuple(shape), wire.facts))
    answer = client.post(wire.url, row, wire.decode, _nothing, threading.Event(), SLACK)
    typer.echo(f"one answer: shape {tuple(answer.shape)}: {_numbers(answer)}  (1 query)\n")
    typer.echo(_plan(section | {"input_shape": list(shape)}, wire.facts, answer, settings.model_dump()))


def _nothing() -> None:
    """Nobody keeps a ledger here: the one query is told."""


def _said(facts: Facts) -> list[str]:
    """What is known without asking."""
    from leakmeter.victims.bounds import UNSAID

    known = {
        "input shape": facts.input_shape,
        "range": None if facts.low is UNSAID else f"{facts.low} to {facts.high}",
        "classes": facts.classes,
        "outputs": facts.outputs,
    }
    return [f"{name}: {'not said' if value is None else value}" for name, value in known.items()]


def _one_row(shape: tuple[int, ...], facts: Facts) -> np.ndarray:
    """The middle of the range, or zeros where it is not said."""
    import numpy as np

    sides = [edge for edge in (facts.low, facts.high) if isinstance(edge, int | float)]
    middle = sum(sides) / 2 if len(sides) == 2 else 0.0
    return np.full((1, *shape), middle, dtype=np.float64 if str(facts.dtype) == "torch.float64" else np.float32)


def _numbers(answer: np.ndarray) -> str:
    flat = answer.reshape(-1)
    return ", ".join(f"{number:.4g}" for number in flat[:8]) + (", …" if len(flat) > 8 else "")


def _plan(section: dict[str, Any], facts: Facts, answer: np.ndarray, remote: dict[str, Any]) -> str:
    """A plan with what was said, what was seen, and placeholders for the rest."""
    import numpy as np
    import tomli_w

    from leakmeter.victims.bounds import UNSAID

    outputs = section.get("outputs") or facts.outputs or _meaning(answer)
    columns = answer.shape[1] if answer.ndim == 2 and answer.shape[1] > 1 else None
    victim: dict[str, Any] = {"low": 0.0, "high": 1.0} if facts.low is UNSAID else {}
    classes = section.get("classes") or facts.classes or columns or 2
    victim |= section | {"outputs": outputs, "classes": classes}
    kept = {key: remote[key] for key in ("authorized_by", "key_env") if remote[key]}
    victim |= {"remote": kept} if kept else {}
    unsure = [] if facts.low is not UNSAID or "low" in section else ["low and high are guesses: set the real range"]
    unsure += [] if columns or facts.classes or section.get("classes") else ["classes is a guess: set the real number"]
    unsure += [] if np.isfinite(answer).all() else ["the answer holds NaN or infinity: an audit refuses such answers"]
    notes = "".join(f"# {line}\n" for line in unsure)
    return notes + tomli_w.dumps({"victim": victim, "budget": 1000, "seeds": [0], "views": [outputs]})


def _meaning(answer: np.ndarray) -> str:
    """What the numbers seem to be."""
    import numpy as np

    if answer.dtype.kind in "iu" or answer.ndim == 1:
        return "labels"
    adds_up = np.allclose(answer.sum(1), 1, atol=0.02) or answer.shape[1] == 1
    return "probs" if adds_up and bool(((answer >= 0) & (answer <= 1)).all()) else "logits"
