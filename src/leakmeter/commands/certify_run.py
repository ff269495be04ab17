"""A certification as a run directory: votes that survive a kill, the certified accuracy, its curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from leakmeter._audit.opening import load_test, open_victim
from leakmeter.certificates.smoothing import Certificate, certify
from leakmeter.commands.certify_shards import cast_votes
from leakmeter.compute import computing
from leakmeter.errors import UsageError
from leakmeter.executors import make_executor
from leakmeter.files import write_atomic
from leakmeter.plan import make_plan
from leakmeter.progress import SILENT, Progress
from leakmeter.runs.run import Run, environment, fresh_path


def certify_to_run(
    plan: dict[str, Any],
    asked: dict[str, Any],
    out: Path,
    resume: Path | None,
    progress: Progress = SILENT,
    executor: str | None = None,
) -> list[str]:
    """Certifies the test inputs, writes `certificate.json`, and returns what to print.

    A resumed certification takes everything from its folder; nothing may be changed on the way but the executor: where
    the votes are cast, None for this process, makes no difference to them.
    """
    content = Run.open(resume).plan if resume else {"plan": plan, "asked": _stated(asked)}
    plan, asked = content["plan"], content["asked"]
    checked = make_plan({**plan, "name": "certify"})
    test = load_test(checked)
    if test is None:
        raise UsageError("certifying needs test data; pass --data, for example --data digits")
    victim = open_victim(checked, test)
    x, y = test.labelled()
    run = Run.enter(resume or fresh_path(out, "certify"), content)
    with run.held(), computing(checked.threads):
        model, counts = victim.white_box, run.path / "counts"
        x = x.to(checked.device)
        if executor is not None:
            cast_votes(checked, asked, model, x, counts, make_executor(executor), progress)
        certificate = certify(model, x, **asked, path=counts, progress=progress)
        record = {"plan": plan, "asked": asked, "environment": environment(), **_summary(certificate, y)}
        write_atomic(run.path / "certificate.json", json.dumps(record, indent=1).encode())
    return [*_lines(record), str(run.path)]


def _stated(asked: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in asked.items() if value is not None}


def _summary(certificate: Certificate, y: torch.Tensor) -> dict[str, Any]:
    most = float(certificate.radii.max())
    steps = [round(most * k / 10, 4) for k in range(11)]
    if certificate.target_radius is not None:
        steps = [0.0, certificate.target_radius]
    return {
        "inputs": len(y),
        "abstained": int((certificate.labels == -1).sum()),
        "average_radius": certificate.average_radius(y),
        "mean_samples": float(certificate.samples.double().mean()),
        "curve": [
            {"radius": r, "accuracy": certificate.accuracy(y, r), "surely": certificate.sure_accuracy(y, r)}
            for r in steps
        ],
    }


def _lines(record: dict[str, Any]) -> list[str]:
    head = (
        f"{record['inputs']:,} inputs, {record['abstained']:,} abstained, average certified radius "
        f"{record['average_radius']:.3f}, {record['mean_samples']:,.0f} samples an input"
    )
    rows = [f"{row['radius']:8.3f} {row['accuracy']:9.1%} {row['surely']:9.1%}" for row in record["curve"]]
    return [head, "  radius  accuracy    surely  (surely: with probability 99.9 %)", *rows]
