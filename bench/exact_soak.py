"""Exact reconstruction over many victims of mixed shapes: is a copy that calls itself exact ever wrong?

    python bench/exact_soak.py [--runs 200] [--first 0] [--minutes 30] [--most 20]

Each run draws a victim (depth, widths, outputs, view, precision, box, and now and then one that is no fully connected
ReLU network) and a seed for the attack. The owner's test is white-box: thousands of points near and far, and points to
which every hidden unit was driven that the random ones never switched. Prints one line a run, writes
results/bench/exact_soak.json with every run in it, or exact_soak_FIRST.json.
"""

from __future__ import annotations

import argparse
import signal
import time
import traceback
from typing import Any

import torch
from _keep import keep
from torch import Tensor, nn

import leakmeter as lm
from leakmeter.errors import LeakmeterError
from leakmeter.seeds import derive, private_randomness, stream
from leakmeter.studies.ours.exact_depth import deep_network

_POINTS, _STARTS, _STEPS = 4000, 16, 60
_KINDS = ("relu",) * 9 + ("tanh", "residual", "pooling")
_VIEWS = ("logits+gradient", "logits+gradient", "probs+gradient", "logits", "probs")
_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-2}
"""How far off an exact copy may be, relative to the largest output of its kind of point."""


class StoppedError(KeyboardInterrupt):
    """A run took more computing than it was given: it says nothing. Like an interrupt, nobody takes it for an error."""


def _stop(*_: object) -> None:
    raise StoppedError


class Residual(nn.Module):
    """y + relu(W y)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, y: Tensor) -> Tensor:
        """The same width."""
        return y + torch.relu(self.inner(y))


def draw(run: int) -> dict[str, Any]:
    """What the run asks of whom."""
    generator = stream(run, "exact", "soak")

    def pick(options: tuple[Any, ...]) -> Any:
        return options[int(torch.randint(len(options), (1,), generator=generator))]

    view, depth = pick(_VIEWS), pick((1, 1, 2, 2, 2, 3))
    widths = (pick((4, 8, 12, 20)), *(pick((2, 3, 5, 8, 12)) for _ in range(depth)), pick((1, 2, 4)))
    if view.startswith("probs"):
        widths = (*widths[:-1], max(2, widths[-1]))
    return {
        "kind": pick(_KINDS),
        "widths": list(widths),
        "view": view,
        "dtype": pick(("float64", "float64", "float32")),
        "box": pick((False, False, True)),
        "seed": run,
    }


def make(spec: dict[str, Any]) -> nn.Sequential:
    """The victim."""
    net = deep_network(tuple(spec["widths"]), seed=derive(spec["seed"], "soak victim"))
    extra: dict[str, Any] = {"tanh": nn.Tanh, "pooling": lambda: nn.MaxPool1d(3, 1, 1), "residual": None}
    if spec["kind"] == "residual":
        with private_randomness(spec["seed"]):
            net = nn.Sequential(net[0], nn.ReLU(), Residual(spec["widths"][1]), *list(net)[2:])
    elif spec["kind"] != "relu":
        net = nn.Sequential(net[0], extra[spec["kind"]](), *list(net)[2:])
    return net.to(getattr(torch, spec["dtype"]))


def hard_points(net: nn.Sequential, x: Tensor, box: bool) -> Tensor:
    """Points to which units were driven that `x` never switched, by walking along their gradients."""
    found, y = [x[:0]], x
    for depth in range(1, len(net)):
        y = net[depth - 1](y)
        if isinstance(net[depth], nn.ReLU):
            stuck = ((y > 0).all(0) | (y <= 0).all(0)).nonzero()[:, 0].tolist()
            sides = [-1.0 if bool(y[0, unit] > 0) else 1.0 for unit in stuck]
            found += [
                _driven(net[:depth], unit, x[:_STARTS], side, box) for unit, side in zip(stuck, sides, strict=True)
            ]
    return torch.cat(found)


def _driven(part: nn.Module, unit: int, x: Tensor, side: float, box: bool) -> Tensor:
    for step in range(_STEPS):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(part(x)[:, unit].sum(), x)
        length = (0.1 if box else 0.1 * 1.1**step) / slope.norm(dim=1, keepdim=True).clamp(min=1e-12)
        x = x + side * length * x.shape[1] ** 0.5 * slope
        x = x.clamp(0, 1) if box else x
    return x.detach()


def off(net: nn.Sequential, copy: nn.Module, spec: dict[str, Any]) -> float:
    """The largest error of the copy, on random points of three sizes and on hard ones, relative to each kind's size."""
    generator, worst = stream(spec["seed"], "exact", "soak points"), 0.0
    dtype, d = getattr(torch, spec["dtype"]), spec["widths"][0]
    if spec["box"]:
        kinds = [torch.rand(_POINTS, d, generator=generator), torch.rand(_POINTS, d, generator=generator).round()]
    else:
        kinds = [size * torch.randn(_POINTS, d, generator=generator) for size in (0.3, 1.0, 10.0)]
    kinds = [x.to(dtype) for x in kinds]
    kinds.append(hard_points(net, kinds[1], spec["box"]))
    for x in kinds:
        if len(x):
            with torch.no_grad():
                truth, guess = net(x).double(), copy(x.double()).double()
            if spec["view"].startswith("probs"):
                truth, guess = truth - truth.mean(1, keepdim=True), guess - guess.mean(1, keepdim=True)
            worst = max(worst, float((truth - guess).norm(dim=1).max() / truth.norm(dim=1).max().clamp(min=1e-9)))
    return worst


def one(run: int) -> dict[str, Any]:
    """One run: what was said of the copy, and whether that is true."""
    spec = draw(run)
    net, low, high = make(spec), *((0.0, 1.0) if spec["box"] else (None, None))
    victim = lm.load_victim(net, input_shape=(spec["widths"][0],), low=low, high=high, outputs="logits")
    name, budget = ("exact", 4000) if "gradient" in spec["view"] else ("exact-values", 20_000)
    oracle, start = lm.Oracle(victim, spec["view"], budget), time.perf_counter()
    try:
        copy = lm.extract(name, oracle, seed=run)
    except LeakmeterError as error:
        return spec | {"outcome": "declared failure", "why": str(error)}
    except StoppedError:
        return spec | {"outcome": "stopped", "why": "the run took too long", "queries": oracle.ledger.spent()}
    except Exception as error:
        return spec | {"outcome": "exception", "why": f"{error!r} in {_where(error)}"}
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    error = off(net, copy.substitute, spec)
    right, said = error <= _TOLERANCE[getattr(torch, spec["dtype"])], copy.findings
    if said.exact:
        outcome = "exact" if right else "FALSELY EXACT"
    elif said.complete:
        outcome = "complete, not exact" if right else "FALSELY COMPLETE"
    else:
        outcome = "incomplete"
    return spec | {
        "outcome": outcome,
        "right": right,
        "error": error,
        "layers": copy.notes.get("layers", [said.units]),
        "why": said.missing,
        "queries": oracle.ledger.spent(),
        "seconds": round(time.perf_counter() - start, 2),
    }


def _where(error: Exception) -> str:
    """The functions it came through, innermost last."""
    return ", ".join(frame.name for frame in traceback.extract_tb(error.__traceback__)[-3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no new run after so many")
    parser.add_argument("--most", type=float, default=0.0, help="CPU seconds after which a run is stopped; 0: none are")
    arguments = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _stop)
    rows: list[dict[str, Any]] = []
    end = time.perf_counter() + 60 * arguments.minutes
    for run in range(arguments.first, arguments.first + arguments.runs):
        if time.perf_counter() > end:
            break
        signal.setitimer(signal.ITIMER_VIRTUAL, arguments.most)
        rows.append(one(run))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        row = rows[-1]
        print(run, *(row.get(key) for key in ("kind", "widths", "view", "dtype", "box", "outcome", "layers")), end=" ")
        print(f"{row.get('error', 0):.1e}", row.get("queries"), row.get("seconds"), row["why"], flush=True)
        _keep(rows, arguments.first, arguments.most)


def _keep(rows: list[dict[str, Any]], first: int, most: float) -> None:
    """After every run: a long soak may be stopped."""
    outcomes = [row["outcome"] for row in rows]
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    command = f"python bench/exact_soak.py --runs {len(rows)} --first {first}" + (f" --most {most:g}" if most else "")
    keep(
        f"exact_soak_{first}" if first else "exact_soak",
        {"command": command, "threads": torch.get_num_threads(), "counts": counts, "rows": rows},
        show=False,
    )


if __name__ == "__main__":
    main()
