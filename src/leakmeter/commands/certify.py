"""`leakmeter certify`: votes that survive a kill, the certified accuracy, its curve, in a run directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakmeter.commands import options
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from leakmeter.certificates.smoothing import Certificate
    from leakmeter.progress import Progress


def certify(
    context: typer.Context,
    *,
    victim: options.VictimFlags,
    data: options.DataFlags,
    sigma: Annotated[float, typer.Option("--sigma", help="the noise, on the scale of the inputs")] = 0.5,
    n: Annotated[int, typer.Option("--n", help="votes per input")] = 1000,
    alpha: Annotated[float, typer.Option("--alpha", help="how often one certificate may be wrong")] = 0.001,
    bound: Annotated[str, typer.Option("--bound", help="tight, renyi or pixeldp")] = "tight",
    target_radius: Annotated[
        float | None, typer.Option("--target-radius", help="stop as soon as this radius is decided")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="use only this many test inputs")] = None,
    seed: options.Seed = 0,
    model: options.ModelFlags,
    run: options.RunFlags,
    executor: Annotated[
        str | None, typer.Option("--executor", help="where: local, local:N, ray or ray:ADDRESS; else in this process")
    ] = None,
) -> None:
    """Certifies how far an input can be moved before the smoothed model changes its answer.

    --resume goes on with all settings of a run that was stopped; only where the votes are cast may change.
    """
    from leakmeter.runs.run import Run, fresh_path

    if run.resume is not None:
        options.refuse_beside_resume(context, "executor")
        path, content = run.resume, Run.open(run.resume).plan
    else:
        plan = {"victim": victim.section(model), "data": data.section(limit), **run.section()}
        asked = {"sigma": sigma, "n": n, "alpha": alpha, "bound": bound, "target_radius": target_radius, "seed": seed}
        path, content = fresh_path(run.out, "certify"), {"plan": options.given(plan), "asked": options.given(asked)}
    record = certify_in(path, content, executor, options.display(run.display))
    options.say(
        f"{record['inputs']:,} inputs, {record['abstained']:,} abstained, average certified radius "
        f"{record['average_radius']:.3f}, {record['mean_samples']:,.0f} samples an input\n"
        f"votes for the true class: {', '.join(f'{p:.1%} at {q}' for q, p in record['p_a'].items())} of the inputs\n"
        "  radius  accuracy    surely  (surely: with probability 99.9 %)"
    )
    for row in record["curve"]:
        options.say(f"{row['radius']:8.3f} {row['accuracy']:9.1%} {row['surely']:9.1%}")
    options.say(path)


def certify_in(path: Path, content: dict[str, Any], executor: str | None, progress: Progress) -> dict[str, Any]:
    """Certifies in the run directory `path`, new or not, and returns what it wrote to `certificate.json`.

    Args:
        path: the run directory.
        content: its `plan`, with victim and data, and what was `asked` of the certificate.
        executor: where the votes are cast, None for this process; that makes no difference to them.
        progress: what shows progress.
    """
    from leakmeter._audit.opening import fit_test, load_test, open_victim
    from leakmeter.certificates import smoothing
    from leakmeter.commands.certify_votes import cast_votes
    from leakmeter.compute import computing
    from leakmeter.executors import make_executor
    from leakmeter.files import write_atomic
    from leakmeter.plan import make_plan
    from leakmeter.runs.run import Run, environment

    plan, asked = make_plan({**content["plan"], "name": "certify"}), content["asked"]
    test = load_test(plan)
    if test is None:
        raise UsageError("certifying needs test data; pass --data, for example --data digits")
    victim = open_victim(plan, test)
    model = victim.white_box  # before a folder is made: it may have none
    x, y = fit_test(test, victim).labelled()
    run = Run.enter(path, content)
    with run.held(), computing(plan.threads):
        counts = run.path / "counts"
        x = x.to(plan.device)
        if executor is not None:
            cast_votes(plan, asked, model, x, counts, make_executor(executor), progress)
        certificate = smoothing.certify(model, x, **asked, path=counts, progress=progress)
        record = {**content, "environment": environment(), **_summary(certificate, y)}
        write_atomic(run.path / "certificate.json", json.dumps(record, indent=1).encode())
    return record


def _summary(certificate: Certificate, y: Tensor) -> dict[str, Any]:
    most = float(certificate.radii.max())
    steps = [round(most * k / 10, 4) for k in range(11)]
    if certificate.target_radius is not None:
        steps = [0.0, certificate.target_radius]
    return {
        "inputs": len(y),
        "abstained": int((certificate.labels == -1).sum()),
        "average_radius": certificate.average_radius(y),
        "p_a": certificate.p_a(y),
        "mean_samples": float(certificate.samples.double().mean()),
        "curve": [
            {"radius": r, "accuracy": certificate.accuracy(y, r), "surely": certificate.sure_accuracy(y, r)}
            for r in steps
        ],
    }
