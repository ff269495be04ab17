"""The attack `auto` beside plain attacks and ART's KnockoffNets and CopycatCNN: same victims, queries and budget.

    python bench/thieves.py [--seed 0] [--seeds 3] [--views probs,labels] [--only "NAME;..."] [--effort 1]
                            [--data FOLDER] [--victims FOLDER] [--name thieves]

All thieves but `auto` are given the queries that `auto` asked, so what differs is what they make of the answers. Plain:
logistic regression on the labels; of rows boosted trees; one network (LeNet of pictures, two layers of tables) of 1,500
steps, of grey pictures also one of dense layers; for colour pictures also four convolutions that learn softened answers
under flips and shifts for 3,000 steps
(`_plain.py`). For rows one plain thief asks for itself: boosted trees on uniform points. Writes results/bench/NAME.json
after every cell; cells already there are not computed again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import _plain
import numpy as np
import torch
from _zoo import Case, zoo
from torch import Tensor, nn

from leakmeter.evaluation.intervals import attack_mean
from leakmeter.evaluation.score import Reference, reference
from leakmeter.extraction.base import extract, make_student, student_name
from leakmeter.extraction.targets import answered_probs
from leakmeter.oracle.oracle import Oracle
from leakmeter.studies.record import Record

SHARE = "accuracy, as a share of the victim's"
EPOCHS = 40  # of ART's thieves; its notebooks use 10, which on 2,000 queries is 160 steps


def thieves(case: Case, view: str, seed: int, effort: float, data: Path | None) -> dict[str, Any]:
    """Fidelity of every thief on one victim."""
    asked: list[Tensor] = []
    oracle = Oracle(case.victim, view, case.budget, observer=lambda _, rows, __: asked.append(rows))
    truth = reference(Oracle(case.victim, "labels"), case.test if case.classes is None else (case.test, case.classes))
    options = {} if case.pool is None else {"pool": case.pool, "data_dir": data}
    start = time.process_time()
    copy = extract("auto", oracle, seed=seed, test=truth, effort=effort, **options)
    seconds = time.process_time() - start
    score, x = copy.curve[-1].score, torch.cat(asked)
    assert score is not None
    print(f"auto: {score.fidelity:.4f} in {seconds:.0f} s", flush=True)
    labels = truth.answer.labels
    return {
        "auto": score.fidelity,
        **({} if score.accuracy is None else {SHARE: score.accuracy / score.victim_accuracy}),
        "test inputs": len(labels),
        "cpu_seconds": round(seconds, 1),
        "majority": float(labels.bincount().max()) / len(labels),
        "tried": [trial.model_dump() for trial in copy.findings.tried],
        "sources": copy.notes["sources"],
        "logistic regression": _plain.logistic(case, x, truth),
        "plain network": _plain.network(case, view, x, truth, seed),
        **_of_rows(case, view, x, truth, seed),
        **({"plain dense network": _plain.network(case, view, x, truth, seed, "mlp:256")} if case.grey else {}),
        **({"plain distillation": _plain.distilled(case, view, x, truth, seed)} if case.colour else {}),
        **_art(case, view, x, truth, seed),
    }


def _of_rows(case: Case, view: str, x: Tensor, truth: Reference, seed: int) -> dict[str, float]:
    """Boosted trees on the queries that `auto` asked, and on as many uniform points."""
    if len(case.test.shape) != 2:
        return {}
    points = case.victim.spec.sample(len(x), torch.Generator().manual_seed(seed))
    asked = {"plain trees": x, "plain trees, uniform points": points}
    return {name: _plain.trees(case, view, rows, truth) for name, rows in asked.items()}


def _art(case: Case, view: str, x: Tensor, truth: Reference, seed: int) -> dict[str, float | str]:
    """ART's two attacks as its documentation calls them, on the same queries and student; empty without ART."""
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    try:  # ART looks for the package `coverage`, not for the bench of that name
        from art.attacks.extraction import CopycatCNN, KnockoffNets
        from art.estimators.classification import BlackBoxClassifier, PyTorchClassifier
    except ImportError:
        return {"ART": "not installed"}
    spec = case.victim.spec
    black_box = BlackBoxClassifier(partial(_probs, case, view), spec.input_shape, spec.classes, clip_values=None)
    common = {"classifier": black_box, "batch_size_fit": 64, "batch_size_query": 64, "nb_epochs": EPOCHS}
    attacks = {
        "ART KnockoffNets": KnockoffNets(
            **common, nb_stolen=len(x), sampling_strategy="random", use_probability=True, verbose=False
        ),
        "ART CopycatCNN": CopycatCNN(**common, nb_stolen=len(x)),
    }
    results: dict[str, float | str] = {}
    for name, attack in attacks.items():
        np.random.seed(seed)  # noqa: NPY002  ART draws from numpy's global state
        torch.manual_seed(seed)
        network = make_student(student_name(None, spec), spec, seed)
        thief = PyTorchClassifier(
            network,
            loss=nn.CrossEntropyLoss(),
            optimizer=torch.optim.Adam(network.parameters(), lr=1e-3),
            input_shape=spec.input_shape,
            nb_classes=spec.classes,
            device_type="cpu",
        )
        attack.extract(x.numpy().astype("float32"), thieved_classifier=thief)
        results[name] = truth.score(network.eval()).fidelity
    return results


def _probs(case: Case, view: str, x: np.ndarray) -> np.ndarray:
    """What ART's black box answers: one-hot where the view shows labels only."""
    rows = case.victim.spec.clamp(torch.from_numpy(np.asarray(x, dtype="float32")))
    return answered_probs(Oracle(case.victim, view).query(rows)).float().numpy()


def summary(cells: dict[str, Any]) -> list[dict[str, Any]]:
    """Mean and interval over seeds, one row a victim and view; `behind`: by how much the best other thief is ahead."""
    rows = []
    for group in dict.fromkeys(key.rpartition("/")[0] for key in cells):
        own = [cell for key, cell in cells.items() if key.rpartition("/")[0] == group and "auto" in cell]
        if not own:
            continue
        thief = ("auto", "logistic", "plain ", "ART ")
        names = [name for name in own[0] if name.startswith(thief) and all(name in cell for cell in own)]
        means = {name: float(np.mean([cell[name] for cell in own])) for name in names}
        ends = attack_mean([cell["auto"] for cell in own], own[0].get("test inputs", 1000))
        best = max(value for name, value in means.items() if name != "auto")
        row = {"victim": group, "seeds": len(own), **{name: round(value, 4) for name, value in means.items()}}
        if SHARE in own[0]:
            row[SHARE] = round(float(np.mean([cell[SHARE] for cell in own])), 4)
        rows.append(
            row
            | {"auto_interval": [ends.low, ends.high], "majority": own[0]["majority"], "ahead": means["auto"] - best}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--views", default="probs,labels")
    parser.add_argument("--only", default="")
    parser.add_argument("--effort", type=float, default=1.0)
    parser.add_argument("--data", type=Path, default=os.environ.get("LEAKMETER_DATA"))
    parser.add_argument("--victims", type=Path, default=os.environ.get("LEAKMETER_VICTIMS"))
    parser.add_argument("--name", default="thieves")
    options = parser.parse_args()
    torch.set_num_threads(1)
    command = f"python bench/thieves.py {' '.join(map(shlex.quote, sys.argv[1:]))}"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    record = Record(Path("results/bench"), options.name, command, {"threads": 1, "commit": commit})
    data, strangers = (None if folder is None else Path(folder) for folder in (options.data, options.victims))
    for name, make in zoo(data, strangers).items():
        if options.only and name not in options.only.split(";"):
            continue
        try:
            case = make()
        except Exception as error:  # a victim whose files or packages are not here
            why = f"{type(error).__name__}: {error}"[:200]
            record.write(skipped={**record.content.get("skipped", {}), name: why})
            print(f"{name}: skipped, {why}", flush=True)
            continue
        for view in options.views.split(","):
            for seed in range(options.seed, options.seed + options.seeds):
                work = partial(thieves, case, view, seed, options.effort, data)
                cell = record.cell(f"{name}, {case.budget:,} {view}/{seed}", work)
                print(
                    name,
                    view,
                    seed,
                    {key: value for key, value in cell.items() if isinstance(value, float)},
                    flush=True,
                )
        record.write(summary=summary(record.content["cells"]))


if __name__ == "__main__":
    main()
