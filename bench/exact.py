"""Exact reconstruction at full size, ours beside the paper's algorithm in one run.

    python bench/exact.py [--seeds 20] [--only float32]

Needs MNIST for the trained victims; without it they are skipped and named as skipped. Prints a line a run and writes
results/bench/exact.json after each; runs that are in it already, measured by the same code, are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
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
from leakmeter.seeds import private_randomness, stream
from leakmeter.studies.ours.exact_depth import deep_network
from leakmeter.studies.ours.exact_queries import D, exactness, random_network, run_exact
from leakmeter.studies.provenance import commit, fingerprint
from leakmeter.training.loop import Recipe, fit

Row = dict[str, Any]
Runs = Iterator[tuple[str, Callable[[], Row]]]
"""What a part measures: the name of each run, and the run."""
_FRESH = 340
"""The first seed of those on which nothing was tried while the method was made."""
_POINTS = 10_000
_ACAS = (-0.3284, -0.5, -0.5, -0.5, -0.5), (0.6799, 0.5, 0.5, 0.5, 0.5)
"""The box of ACAS Xu's five inputs, as its benchmark normalises them."""


def paper(_: int) -> Runs:
    """The same victims, without biases, by the paper's method and by ours."""
    for h in (64, 256, 1024):
        net = random_network(h, seed=0, biases=False)
        yield f"h={h}, paper", partial(_open, net, "logits+gradient", seed=0, method="paper", h=h)
        yield f"h={h}, ours", partial(_open, net, "logits+gradient", seed=0)


def float64(seeds: int) -> Runs:
    """One hidden layer over seeds, with one output and ten, and the largest network."""
    for h, outputs, count in ((1024, 1, seeds), (1024, 10, seeds), (4096, 1, 1)):
        for seed in range(count):
            net = random_network(h, outputs=outputs, seed=seed)
            yield f"784-{h}-{outputs}, seed {seed}", partial(_open, net, "logits+gradient", seed=seed)


def float32(seeds: int) -> Runs:
    """Random networks in open space and in the unit box, one and ten outputs; agreement on random points."""
    for h, outputs, box in [(h, outputs, box) for h in (128, 256) for outputs in (1, 10) for box in (False, True)]:
        for seed in range(min(seeds, 3)):
            net = random_network(h, outputs=outputs, seed=seed, dtype=torch.float32)
            x = (torch.rand if box else torch.randn)(_POINTS, D, generator=stream(seed, "bench", "points"))
            run = partial(_agreement, net, (0.0, 1.0) if box else (None, None), x, "logits+gradient", seed)
            yield f"784-{h}-{outputs}, {'box' if box else 'open'}, seed {seed}", run


def values(seeds: int) -> Runs:
    """784-128-1 from values alone, against Carlini et al. 2020: 2^21.5 queries, worst error 2^-25."""
    for seed in range(_FRESH, _FRESH + seeds):
        net = random_network(128, seed=seed)
        yield f"784-128-1, seed {seed}", partial(_open, net, "logits", seed=seed, name="exact-values")


def deep(shape: str, view: str, most: int, seeds: int) -> Runs:
    """Several hidden layers, random, float64, open space; at most so many queries a unit."""
    widths = tuple(int(width) for width in shape.split("-"))
    name = "exact" if "gradient" in view else "exact-values"
    for seed in range(min(seeds, 5)):
        net, budget = deep_network(widths, seed=seed), most * sum(widths[1:-1])
        yield f"{shape}, {view}, seed {seed}", partial(_open, net, view, seed=seed, name=name, budget=budget)


def small_float32(seeds: int) -> Runs:
    """One hidden layer in float32 from values alone: recovered, or said not to be; agreement on random points."""
    shapes = [(16, 32, 1), (16, 32, 4), (D, 128, 10)]
    for d, h, outputs in shapes:
        for view in ("logits", "probs") if outputs > 1 else ("logits",):
            for seed in range(_FRESH, _FRESH + min(seeds, 5)):
                net = random_network(h, d, outputs, seed=seed, dtype=torch.float32)
                x = torch.randn(_POINTS, d, generator=stream(seed, "bench", "points"))
                most = (20_000 if d < D else 200_000) // h
                run = partial(_agreement, net, (None, None), x, view, seed, most, "exact-values")
                yield f"{d}-{h}-{outputs}, {view}, seed {seed}", run


def trained(hidden: tuple[int, ...], epochs: int, views: tuple[str, ...], most: int | None, seeds: int) -> Runs:
    """Networks trained on MNIST, one a seed, float32, box: agreement on the 10,000 test images."""
    train, test = load("mnist", "train"), load("mnist", "test")
    for seed in range(min(seeds, 3)):
        with private_randomness(seed):
            modules: list[nn.Module] = [nn.Flatten()]
            for inputs, outputs in zip((D, *hidden), (*hidden, 10), strict=True):
                modules += [nn.Linear(inputs, outputs), nn.ReLU()]
        net = nn.Sequential(*modules[:-1])
        fit(net, (train.x, train.y), lambda m, b, _: F.cross_entropy(m(b[0]), b[1]), Recipe(epochs=epochs), seed=seed)
        for view in views:
            name = f"{'-'.join(map(str, (D, *hidden, 10)))}, {view}, seed {seed}"
            yield name, partial(_agreement, net, (0.0, 1.0), test.x, view, seed, most)


def stranger(file: str, most: int, seeds: int) -> Runs:
    """A network that others trained, in its box; at most so many queries a unit."""
    if not (VICTIMS / file).exists():
        raise UsageError(f"{VICTIMS} does not hold {file}")
    mnist = file.startswith("mnist")
    net = dense(VICTIMS / file, torch.float32 if mnist else torch.float64)
    low, high = (0.0, 1.0) if mnist else (torch.tensor(_ACAS[0]).double(), torch.tensor(_ACAS[1]).double())
    for seed in range(_FRESH, _FRESH + min(seeds, 3)):
        drawn = torch.rand(100_000, 5, generator=stream(seed, "bench", "points"), dtype=torch.float64)
        x = load("mnist", "test").x if mnist else low + (high - low) * drawn
        yield f"{file}, seed {seed}", partial(_agreement, net, (low, high), x, "logits+gradient", seed, most)


def _units(net: nn.Module) -> int:
    return sum(module.out_features for module in list(net.modules())[1:-1] if isinstance(module, nn.Linear))


def _open(net: nn.Module, view: str, *, seed: int, **options: Any) -> Row:
    """One reconstruction in open space."""
    start = time.process_time()
    row = run_exact(net, view, seed=seed, **options)
    a_unit = {"queries a unit": row["queries"] / _units(net)}
    return {"view": view, "seed": seed, **a_unit, "CPU seconds": round(time.process_time() - start, 1), **row}


def _agreement(
    net: nn.Module,
    box: tuple[Any, Any],
    x: torch.Tensor,
    view: str,
    seed: int,
    most: int | None = None,
    name: str = "exact",
) -> Row:
    """One reconstruction from at most so many queries a unit, and how often the copy answers as the victim."""
    victim = lm.load_victim(net, input_shape=tuple(x.shape[1:]), low=box[0], high=box[1], outputs="logits")
    oracle, start = lm.Oracle(victim, view, most and most * _units(net)), time.process_time()
    copy = lm.extract(name, oracle, seed=seed)
    return {
        "view": view,
        "seed": seed,
        "queries a unit": oracle.ledger.spent() / _units(net),
        "CPU seconds": round(time.process_time() - start, 1),
        "queries": oracle.ledger.spent(),
        "agreement": lm.score(copy.substitute, victim, x).fidelity,
        **copy.notes,
        **exactness(copy.findings),
    }


def _line(row: Row) -> str:
    told = f"{row['queries']} queries, {row['queries a unit']:.2f} a unit, {row['CPU seconds']} CPU s"
    if "failure" in row:
        return f"{told}, declared failure: {row['failure']}"
    said = row["certificate"]
    if "agreement" in row:
        told += f", agreement {row['agreement']:.4f}"
    outcome = "exact" if said["exact"] else "complete, not exact" if said["complete"] else "declared incomplete"
    found = f"layers {row.get('layers', [said['units']])}, error 2^-{said['bits']:.1f}"
    return f"{told}, {found}, relative {said['relative_error']:.1e}, {outcome}: {said['missing']}"


_GRADIENT, _BOTH = "logits+gradient", ("probs+gradient", "logits+gradient")
PARTS: dict[str, Callable[[int], Runs]] = {
    "paper": paper,
    "float64": float64,
    "float32": float32,
    "trained": partial(trained, (128,), 20, _BOTH, None),
    "trained 256": partial(trained, (256,), 20, _BOTH, None),
    "values": values,
    "deep 784-64-32-10": partial(deep, "784-64-32-10", _GRADIENT, 30),
    "deep 784-128-64-10": partial(deep, "784-128-64-10", _GRADIENT, 30),
    "deep 784-128-64-32-10": partial(deep, "784-128-64-32-10", _GRADIENT, 30),
    "deep 40-20-10-10-1": partial(deep, "40-20-10-10-1", "logits", 2**12),
    "deep 80-40-20-1": partial(deep, "80-40-20-1", "logits", 2**11),
    "deep 10-20-20-1": partial(deep, "10-20-20-1", _GRADIENT, 200),
    "deep 128-16x3-10": partial(deep, "128-16-16-16-10", _GRADIENT, 60),
    "deep 16-50x6-5": partial(deep, "16-50-50-50-50-50-50-5", _GRADIENT, 400),
    "float32 values": small_float32,
    "trained deep": partial(trained, (128, 64), 5, _BOTH[:1], 60),
    "mnist-mlp-256x2": partial(stranger, "mnist-mlp-256x2.onnx", 100),
    "acasxu-1-1": partial(stranger, "acasxu-1-1.onnx", 60),
}


def measure(name: str, seeds: int, command: str) -> None:
    """Makes the runs of a part that the file does not hold yet, and writes after each."""
    path = FOLDER / "exact.json"

    def kept() -> dict[str, Any]:  # other parts may be measured meanwhile
        found = json.loads(path.read_text()) if path.exists() else {}
        return {part: found[part] for part in PARTS if part in found}

    part = kept().get(name, {})
    rows = part.get("rows", []) if part.get("code") == fingerprint() else []
    for run, make in PARTS[name](seeds):
        if all(row["run"] != run for row in rows):
            rows.append({"run": run, **make()})
            print(f"{name}: {run}: {_line(rows[-1])}", flush=True)
            facts = {"command": command, "commit": commit(), "code": fingerprint(), "threads": torch.get_num_threads()}
            keep("exact", {**kept(), name: {**facts, "rows": rows}}, show=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=PARTS)
    arguments = parser.parse_args()
    for name in [arguments.only] if arguments.only else PARTS:
        try:
            measure(name, arguments.seeds, f"python bench/exact.py --seeds {arguments.seeds} --only '{name}'")
        except UsageError as error:
            print(f"{name}: skipped, because {error}")


if __name__ == "__main__":
    main()
