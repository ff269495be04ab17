"""Exact reconstruction at full size, ours beside the paper's algorithm in one run.

    python bench/exact.py [--seeds 20] [--only float32]

Needs MNIST for the trained victims; without it they are skipped and named as skipped. Compares with the Adversarial
Robustness Toolbox's FunctionallyEquivalentExtraction if that is installed. Prints a table, writes
results/bench/exact.json with every run in it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from _dense import VICTIMS, dense
from _keep import FOLDER, keep
from torch import nn

import leakmeter as lm
from leakmeter.data.catalogue import load
from leakmeter.errors import UsageError
from leakmeter.extraction.exact.certificate import aligned
from leakmeter.seeds import private_randomness, stream
from leakmeter.studies.ours.exact_depth import deep_network
from leakmeter.studies.ours.exact_queries import D, exactness, random_network, run_exact
from leakmeter.training.loop import Recipe, fit

Rows = list[dict[str, Any]]
_ART_SECONDS = 300
_FRESH = 100
"""The first seed of those on which nothing was tried while the method was made."""
_ACAS = (-0.3284, -0.5, -0.5, -0.5, -0.5), (0.6799, 0.5, 0.5, 0.5, 0.5)
"""The box of ACAS Xu's five inputs, as its benchmark normalises them."""


def paper(_: int) -> Rows:
    """The same victims, without biases, by the paper's method and by ours."""
    rows = []
    for h in (64, 256, 1024):
        net = random_network(h, seed=0, biases=False)
        theirs = run_exact(net, "logits+gradient", seed=0, method="paper", h=h)
        ours = run_exact(net, "logits+gradient", seed=0)
        rows.append({"h": h, "paper": theirs, "ours": ours, "ratio of queries": theirs["queries"] / ours["queries"]})
        print(f"paper h={h}: {theirs['queries'] / h:.1f} queries a unit, {_outcome(theirs)}; {_line(h, ours)}")
    return rows


def float64(seeds: int) -> Rows:
    """Success or declared failure over seeds, and the largest network."""
    rows = []
    for h, count in ((1024, seeds), (4096, 1)):
        for seed in range(count):
            net = random_network(h, seed=seed)
            rows.append({"h": h, "seed": seed, **run_exact(net, "logits+gradient", seed=seed)})
            print(f"float64 seed {seed} {_line(h, rows[-1])}")
    kinds = [_outcome(row) for row in rows]
    print("float64 outcomes:", {kind: kinds.count(kind) for kind in set(kinds)})
    return rows


def float32(seeds: int) -> Rows:
    """Random networks in open space and in the unit box, one and ten outputs; fidelity on uniform points."""
    rows = []
    for h in (128, 256):
        for outputs in (1, 10):
            for box in (False, True):
                for seed in range(min(seeds, 3)):
                    net = random_network(h, outputs=outputs, seed=seed, dtype=torch.float32)
                    draw, generator = (torch.rand, torch.randn)[not box], stream(seed, "bench", "points")
                    x = draw(10_000, D, generator=generator)
                    rows.append({"h": h, "outputs": outputs, "seed": seed, **_measured(net, (D,), box, x, seed)})
                    print(f"float32 random {_line(h, rows[-1])} box={box} fidelity {rows[-1]['fidelity']:.4f}")
    return rows


def trained(seeds: int) -> Rows:
    """784-h-10 networks trained on MNIST, one a seed, float32, agreement on the 10,000 test images."""
    try:
        train, test = load("mnist", "train"), load("mnist", "test")
    except UsageError as error:
        print(f"trained: skipped, because {error}")
        return []
    rows = []
    for h, seed in [(h, seed) for h in (128, 256) for seed in range(min(seeds, 3))]:
        with private_randomness(seed):
            net = nn.Sequential(nn.Flatten(), nn.Linear(D, h), nn.ReLU(), nn.Linear(h, 10))
        fit(net, (train.x, train.y), lambda m, b, _: F.cross_entropy(m(b[0]), b[1]), Recipe(epochs=20), seed=seed)
        for view in ("probs+gradient", "logits+gradient"):
            measured = _measured(net, (1, 28, 28), True, test.x, seed, view)
            rows.append({"h": h, "view": view, "seed": seed, **measured})
            print(
                f"trained on MNIST, {view}, {_line(h, rows[-1])} agreement on test images "
                f"{rows[-1]['fidelity']:.4f}, units aligned {rows[-1]['aligned']} of {h}"
            )
    return rows


def values(seeds: int) -> Rows:
    """784-128-1 from values alone, against Carlini et al. 2020: 2^21.5 queries, worst error 2^-25."""
    rows = []
    for seed in range(_FRESH, _FRESH + seeds):
        row = run_exact(random_network(128, seed=seed), "logits", seed=seed, name="exact-values")
        rows.append({"seed": seed, "log2 queries": math.log2(row["queries"]), **row})
        print(f"values 784-128-1: 2^{rows[-1]['log2 queries']:.2f} queries, error 2^-{row['certificate']['bits']:.1f}")
    return rows


def deep(shape: str, view: str, most: int, seeds: int) -> Rows:
    """Several hidden layers, random, float64, open space; at most so many queries a unit."""
    widths = tuple(int(width) for width in shape.split("-"))
    rows, units = [], sum(widths[1:-1])
    for seed in range(min(seeds, 5)):
        name = "exact" if "gradient" in view else "exact-values"
        row = run_exact(deep_network(widths, seed=seed), view, seed=seed, name=name, budget=most * units)
        rows.append({"victim": shape, "view": view, "seed": seed, "queries a unit": row["queries"] / units, **row})
        found = row["certificate"]
        print(
            f"deep {shape} {view} seed {seed}: {row['queries']} queries, {row['queries'] / units:.1f} a unit, "
            f"layers {row.get('layers', [found['units']])}, relative error {found['relative_error']:.1e}, "
            f"{_outcome(row)}, {row['seconds']:.0f} s",
            flush=True,
        )
    return rows


def small_float32(seeds: int) -> Rows:
    """One hidden layer in float32 from values alone: recovered, or said not to be."""
    rows = []
    shapes = [(16, 32, 1, "logits"), (16, 32, 4, "logits"), (16, 32, 4, "probs"), (D, 128, 10, "probs")]
    for d, h, outputs, view in shapes:
        for seed in range(min(seeds, 5)):
            net = random_network(h, d, outputs, seed=seed, dtype=torch.float32)
            row = run_exact(net, view, seed=seed, name="exact-values", budget=20_000 if d < D else 200_000)
            rows.append({"victim": f"{d}-{h}-{outputs}", "view": view, "seed": seed, **row})
            print(f"float32 values {d}-{h}-{outputs} {view} seed {seed}: {_outcome(row)}", flush=True)
    return rows


def trained_deep(seeds: int) -> Rows:
    """784-128-64-10 trained on MNIST, one a seed, float32, box: agreement on the 10,000 test images."""
    try:
        train, test = load("mnist", "train"), load("mnist", "test")
    except UsageError as error:
        print(f"trained deep: skipped, because {error}")
        return []
    rows = []
    for seed in range(min(seeds, 3)):
        with private_randomness(seed):
            layers = [nn.Linear(D, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)]
        net = nn.Sequential(nn.Flatten(), *layers)
        fit(net, (train.x, train.y), lambda m, b, _: F.cross_entropy(m(b[0]), b[1]), Recipe(epochs=5), seed=seed)
        rows.append(_agreement("784-128-64-10 trained", net, (0.0, 1.0), test.x, "probs+gradient", seed))
    return rows


def stranger(file: str, seeds: int) -> Rows:
    """A network that others trained, in its box; skipped where the file is not at hand."""
    if not (VICTIMS / file).exists():
        print(f"{file}: skipped, because {VICTIMS} does not hold it")
        return []
    mnist = file.startswith("mnist")
    net = dense(VICTIMS / file, torch.float32 if mnist else torch.float64)
    low, high = (0.0, 1.0) if mnist else (torch.tensor(_ACAS[0]).double(), torch.tensor(_ACAS[1]).double())
    rows = []
    for seed in range(min(seeds, 3)):
        drawn = torch.rand(100_000, 5, generator=stream(seed, "bench", "points"), dtype=torch.float64)
        x = load("mnist", "test").x if mnist else low + (high - low) * drawn
        rows.append(_agreement(file, net, (low, high), x, "logits+gradient", seed))
    return rows


def _agreement(
    name: str, net: nn.Module, box: tuple[Any, Any], x: torch.Tensor, view: str, seed: int, most: int = 60
) -> dict[str, Any]:
    """One reconstruction in a box from at most so many queries a unit, and how often the copy answers as the victim."""
    victim = lm.load_victim(net, input_shape=tuple(x.shape[1:]), low=box[0], high=box[1], outputs="logits")
    units = sum(module.out_features for module in net.modules() if isinstance(module, nn.Linear)) - victim.spec.classes
    oracle, start = lm.Oracle(victim, view, most * units), time.process_time()
    copy = lm.extract("exact", oracle, seed=seed)
    row = {
        "victim": name,
        "view": view,
        "seed": seed,
        "queries": oracle.ledger.spent(),
        "queries a unit": oracle.ledger.spent() / units,
        "CPU seconds": round(time.process_time() - start, 1),
        "agreement": lm.score(copy.substitute, victim, x).fidelity,
        **copy.notes,
        **exactness(copy.findings),
    }
    print(
        f"{name} {view} seed {seed}: {row['queries a unit']:.1f} queries a unit, layers {row.get('layers')}, agreement "
        f"{row['agreement']:.4f}, {_outcome(row)}, {row['CPU seconds']} CPU s: {copy.findings.missing}",
        flush=True,
    )
    return row


def art(_: int) -> Rows:
    """The toolbox's port of Jagielski et al. 2020 on victims of three outputs, stopped after five minutes each."""
    if importlib.util.find_spec("art") is None:
        print("art: skipped, because the Adversarial Robustness Toolbox is not installed")
        return []
    rows = []
    for h, d in ((4, 10), (16, 20), (128, D)):
        net = random_network(h, d, 3, seed=0)
        context = multiprocessing.get_context("fork")
        asked, ending = context.Value("q", 0), context.Array("c", 200)
        child = context.Process(target=_art, args=(net, h, d, asked, ending))
        child.start()
        child.join(_ART_SECONDS)
        ended = not child.is_alive()
        child.kill()
        theirs = {"queries": asked.value, "ending": ending.value.decode() if ended else f"none in {_ART_SECONDS} s"}
        ours = run_exact(net, "logits", seed=0, name="exact-values")
        rows.append({"h": h, "d": d, "art": theirs, "ours": ours})
        print(f"art h={h} d={d}: {theirs}; ours: {ours['queries']} queries, {_line(h, ours)}")
    return rows


def _art(net: nn.Module, h: int, d: int, asked: Any, ending: Any) -> None:
    from art.attacks.extraction import FunctionallyEquivalentExtraction
    from art.estimators.classification import BlackBoxClassifierNeuralNetwork

    def predict(x: Any) -> Any:
        asked.value += len(x)
        with torch.no_grad():
            return net(torch.from_numpy(x).double()).numpy()

    victim = BlackBoxClassifierNeuralNetwork(predict, input_shape=(d,), nb_classes=3)
    x = torch.randn(1000, d).double().numpy()
    try:
        copy = FunctionallyEquivalentExtraction(victim, num_neurons=h).extract(x)
        error = abs(copy.predict(x) - predict(x)).max()
        ending.value = f"largest error {error:.1e}".encode()
    except Exception as failure:
        ending.value = f"{type(failure).__name__}: {failure}".encode()[:199]


def _measured(
    net: nn.Module, shape: tuple[int, ...], box: bool, x: torch.Tensor, seed: int, view: str = "logits+gradient"
) -> dict[str, Any]:
    low, high = (0.0, 1.0) if box else (None, None)
    victim = lm.load_victim(net, input_shape=shape, low=low, high=high, outputs="logits")
    oracle = lm.Oracle(victim, view)
    start = time.perf_counter()
    copy = lm.extract("exact", oracle, seed=seed)
    seconds = time.perf_counter() - start
    score = lm.score(copy.substitute, victim, x)
    hidden = next(module for module in net.modules() if isinstance(module, nn.Linear))
    match = aligned(copy.substitute.hidden, hidden, tolerance=1e-6)
    return {
        "box": box,
        "queries": oracle.ledger.spent(),
        "seconds": round(seconds, 2),
        "fidelity": score.fidelity,
        "max_error": score.max_error,
        "aligned": int((match >= 0).sum()),
        **copy.notes,
        **exactness(copy.findings),
    }


def _outcome(row: dict[str, Any]) -> str:
    if "failure" in row:
        return f"declared failure ({row['failure'][:60]}...)"
    certificate = row["certificate"]
    if certificate["exact"]:
        return "exact"
    return "silently wrong" if certificate["complete"] else "declared incomplete"


def _line(h: int, row: dict[str, Any]) -> str:
    certificate = row["certificate"]
    return (
        f"h={h}: {row['queries'] / h:.2f} queries a unit, {row['search']['rounds']} rounds, "
        f"{certificate['units']} units, relative error {certificate['relative_error']:.1e}, {_outcome(row)}, "
        f"{row['seconds']:.1f} s"
    )


PARTS: dict[str, Callable[[int], Rows]] = {
    "paper": paper,
    "float64": float64,
    "float32": float32,
    "trained": trained,
    "values": values,
    "deep 784-64-32-10": partial(deep, "784-64-32-10", "logits+gradient", 30),
    "deep 784-128-64-10": partial(deep, "784-128-64-10", "logits+gradient", 30),
    "deep 784-128-64-32-10": partial(deep, "784-128-64-32-10", "logits+gradient", 30),
    "deep 40-20-10-10-1": partial(deep, "40-20-10-10-1", "logits", 2**12),
    "deep 80-40-20-1": partial(deep, "80-40-20-1", "logits", 2**11),
    "deep 10-20-20-1": partial(deep, "10-20-20-1", "logits+gradient", 200),
    "deep 128-16x3-10": partial(deep, "128-16-16-16-10", "logits+gradient", 60),
    "deep 16-50x6-5": partial(deep, "16-50-50-50-50-50-50-5", "logits+gradient", 400),
    "float32 values": small_float32,
    "trained deep": trained_deep,
    "mnist-mlp-256x2": partial(stranger, "mnist-mlp-256x2.onnx"),
    "acasxu-1-1": partial(stranger, "acasxu-1-1.onnx"),
    "art": art,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=PARTS)
    arguments = parser.parse_args()
    path = FOLDER / "exact.json"
    kept = json.loads(path.read_text()) if arguments.only and path.exists() else {}
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            command = f"python bench/exact.py --seeds {arguments.seeds}" + (
                f" --only '{name}'" if arguments.only else ""
            )
            commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
            facts = {"command": command, "commit": commit.strip(), "threads": torch.get_num_threads()}
            rows = part(arguments.seeds)
            if arguments.only and path.exists():  # another part may have been measured meanwhile
                kept = json.loads(path.read_text())
            kept[name] = {**facts, "rows": rows}
    keep("exact", kept)


if __name__ == "__main__":
    main()
