"""Whether intervals cover: every interval that a report prints, simulated over attacks whose truth is known.

    python bench/coverage.py [--trials 1000] [--seed 1]

A world is an attack: how its seeds differ, how hard inputs are, what it reaches with more queries. Its inputs have one
of 50 difficulties; a test set draws some of them, and all seeds are measured on the same ones. Covered is what the
report says the interval is of: the attack's mean over all seeds and inputs, the share of all tries, the cheapest of the
copies made. A nominal 95 % interval should hold in 94 % of trials at least, and an attack exactly on the line should
pass the policy in 2.5 % at most.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from _keep import keep
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from leakmeter.errors import Inconclusive
from leakmeter.evaluation.cheaper import cheaper
from leakmeter.evaluation.crossing import crossing_interval
from leakmeter.evaluation.intervals import attack_mean, certified_share, exact
from leakmeter.evaluation.tries import first_made, share_of_tries
from leakmeter.plan import FidelityLimit, Policy
from leakmeter.results import Arm
from leakmeter.verdict.policy import rule

LEVELS = norm.ppf((np.arange(50) + 0.5) / 50)  # how hard an input is
FAILED = 0.15  # fidelity of a try that failed outright
STOPS = (1, 4, 16, 64, 256, 1024, 4096)
Array = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """An attack: `spread` says how its seeds differ, `hard` how much inputs do, `slope` what queries bring."""

    spread: str
    hard: float
    level: float
    slope: float = 0.0

    def seeds(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """What each seed adds to the logit; minus infinity: it fails."""
        z = rng.standard_normal(shape)
        if self.spread == "logit-normal, 1":
            return z
        if self.spread == "student-t, 2 df":
            return 0.5 * rng.standard_t(2, shape)
        lucky = {"one in five fails": 0.8, "one in five succeeds": 0.2}.get(self.spread, 1.0)
        scale = 0.0 if self.spread == "all alike" else 0.3
        return np.where(rng.random(shape) < lucky, scale * z, -np.inf)

    def chances(self, effects: Array, queries: float = 1.0) -> Array:
        """How likely the copy of a seed is to agree, difficulty by difficulty (the last axis)."""
        logits = self.level + self.slope * np.log(queries) + effects[..., None] + self.hard * LEVELS
        return np.where(np.isneginf(effects)[..., None], FAILED, expit(logits))

    def mean(self, queries: float = 1.0) -> float:
        """The attack's mean fidelity over all seeds and inputs."""
        return float(self.chances(self.seeds(np.random.default_rng(9), (20_000,)), queries).mean())


SPREADS = (
    "all alike",
    "logit-normal, 0.3",
    "logit-normal, 1",
    "student-t, 2 df",
    "one in five fails",
    "one in five succeeds",
)


@cache
def placed(spread: str, hard: float, fidelity: float, slope: float = 0.0) -> World | None:
    """The world of this mean fidelity; None: there is none."""

    def off(level: float) -> float:
        return World(spread, hard, level, slope).mean() - fidelity

    return World(spread, hard, brentq(off, -20, 20, xtol=1e-4), slope) if off(-20) < 0 < off(20) else None


def measured(rng: np.random.Generator, chances: Array, inputs: int) -> Array:
    """Rates of copies [trials, ..., difficulties] on test sets of each trial's own, shared by all its copies."""
    drawn = rng.multinomial(inputs, np.full(len(LEVELS), 1 / len(LEVELS)), size=len(chances))
    drawn = drawn.reshape(len(chances), *[1] * (chances.ndim - 2), len(LEVELS))
    return rng.binomial(drawn, chances).sum(-1) / inputs


def means(rng: np.random.Generator, trials: int) -> Iterator[dict[str, Any]]:
    """The attack's mean, the share of tries at a line, and the policy with the mean exactly on the line."""
    grid = product((0.5, 0.8, 0.9, 0.95, 0.99), SPREADS, (100, 1000, 10_000), (1, 3, 5, 10))
    for fidelity, spread, inputs, seeds in grid:
        world = placed(spread, 2.0 if inputs == 1000 else 0.5, fidelity)
        if world is None:
            continue
        chances = world.chances(world.seeds(rng, (trials, seeds)))
        rates, truth = measured(rng, chances, inputs), world.mean()
        line = truth - 0.02
        share = float((world.chances(world.seeds(np.random.default_rng(9), (20_000,))).mean(-1) >= line).mean())
        kept = [list(row) for row in rates]
        mean = [attack_mean(row, inputs) for row in kept]
        yield {
            "fidelity": fidelity,
            "spread": spread,
            "inputs": inputs,
            "seeds": seeds,
            "mean": share_of([truth in each for each in mean]),
            "width": round(float(np.mean([each.high - each.low for each in mean])), 4),
            "tries": share_of(share in share_of_tries(row, inputs, line).share for row in kept),
            "false pass": share_of(
                each.high < truth and _outcome(row, inputs, truth) == "pass"
                for row, each in zip(kept, mean, strict=True)
            ),
        }


def copies(rng: np.random.Generator, trials: int) -> Iterator[dict[str, Any]]:
    """The copies made, whatever other seeds would give, and the policy with the best of them exactly on the line."""
    grid = product(
        (0.5, 0.8, 0.9, 0.95, 0.99), ("logit-normal, 0.3", "one in five fails"), (100, 1000, 10_000), (1, 3, 10)
    )
    for fidelity, spread, inputs, seeds in grid:
        world = placed(spread, 2.0 if inputs == 1000 else 0.5, fidelity)
        if world is None:
            continue
        chances = world.chances(world.seeds(rng, (10 * trials, seeds)))
        rates = measured(rng, chances, inputs)
        each = 1 - 0.05 / seeds
        pairs = [(list(row), float(top)) for row, top in zip(rates, chances.mean(-1).max(1), strict=True)]
        yield {
            "fidelity": fidelity,
            "spread": spread,
            "inputs": inputs,
            "seeds": seeds,
            "one copy": share_of(
                made in exact(rate * inputs, inputs)
                for rate, made in zip(rates[:, 0], chances[:, 0].mean(-1), strict=True)
            ),
            "their mean": share_of(
                made in exact(rate * inputs, inputs)
                for rate, made in zip(rates.mean(1), chances.mean((1, 2)), strict=True)
            ),
            "false exceeded": share_of(
                exact(max(row) * inputs, inputs, each).low > top and _outcome(row, inputs, top) == "exceeded"
                for row, top in pairs
            ),
        }


def _outcome(rates: list[float], inputs: int, line: float) -> str:
    mean = attack_mean(rates, inputs)
    arm = Arm.model_construct(
        label="attack",
        view="probs",
        defense="none",
        control=False,
        queries=1000,
        inputs=inputs,
        copies=[rates],
        curve=[(1000, float(np.mean(rates)), mean.low, mean.high)],
    )
    return rule(Policy(max_fidelity=FidelityLimit(queries=1000, value=line)), [arm])[0].outcome


def costs(rng: np.random.Generator, trials: int) -> Iterator[dict[str, Any]]:
    """Queries to 80 and 90 %: of the attack on average, and of the best of the copies made."""
    for spread, inputs, seeds, line in product(SPREADS, (100, 1000, 10_000), (1, 3, 10), (0.8, 0.9)):
        world = World(spread, 1.0, level=-2.0, slope=0.7)
        effects = world.seeds(rng, (trials, seeds))
        curves = np.stack([world.chances(effects, stop) for stop in STOPS], axis=2)
        rates = measured(rng, curves, inputs)  # trials, seeds, stops
        whole = _needed(lambda queries, world=world: world.mean(queries), line)  # type: ignore[misc]
        held: dict[str, list[bool]] = {"mean": [], "best try": []}
        for at in range(trials):
            points = {stop: list(rates[at, :, k]) for k, stop in enumerate(STOPS)}
            band = [(stop, (each := attack_mean(row, inputs)).low, each.high) for stop, row in points.items()]
            low, high = crossing_interval(band, line)
            held["mean"].append(low - 1 < whole <= (high or np.inf))
            best = float(effects[at].max())
            first = _needed(lambda q, best=best, world=world: _one(world, best, q), line)  # type: ignore[misc]
            low, high = first_made(points, inputs, line)
            held["best try"].append(low - 1 < first <= (high or np.inf))
        about = {"spread": spread, "inputs": inputs, "seeds": seeds, "line": line}
        yield about | {name: share_of(found) for name, found in held.items()}


def _one(world: World, effect: float, queries: float) -> float:
    return float(world.chances(np.array(effect), queries).mean())


def _needed(curve: Callable[[float], float], line: float) -> float:
    """Queries until a rising curve reaches the line."""
    if curve(1.0) >= line:
        return 1.0
    if curve(1e9) < line:
        return float(np.inf)
    return float(np.exp(brentq(lambda at: curve(float(np.exp(at))) - line, 0, np.log(1e9), xtol=1e-3)))


def ratios(rng: np.random.Generator, trials: int) -> Iterator[dict[str, Any]]:
    """How much cheaper a view makes a copy: the median over pairs of runs; few pairs promise less than 95 %."""
    for spread, inputs, pairs in product(SPREADS[1:4], (1000, 10_000), (3, 6, 10)):
        slow, fast = World(spread, 1.0, level=-2.0, slope=0.7), World(spread, 1.0, level=0.0, slope=0.7)
        truth, held = np.exp(2.0 / 0.7), []  # the same curve, shifted; seeds shift both sides alike in the median
        for _ in range(max(100, trials // 10)):
            effects = [world.seeds(rng, (1, pairs)) for world in (slow, fast)]
            curves = [
                np.stack([world.chances(each, stop) for stop in STOPS], axis=2)
                for world, each in zip((slow, fast), effects, strict=True)
            ]
            rates = measured(rng, np.concatenate(curves, axis=1), inputs)[0]
            drawn = [[(stop, float(v)) for stop, v in zip(STOPS, row, strict=True)] for row in rates]
            try:
                found = cheaper(drawn[:pairs], drawn[pairs:], 0.7)
            except Inconclusive:  # some run never got there: nothing is said
                continue
            held.append(bool(found.interval.low <= truth <= found.interval.high))
        about = {"spread": spread, "inputs": inputs, "pairs": pairs, "statements": len(held)}
        yield about | {"promised": found.interval.confidence, "median": share_of(held)}


def certified(rng: np.random.Generator, trials: int) -> Iterator[dict[str, Any]]:
    """Certified accuracy: the share certified within both ends, the share truly robust not below the lower one."""
    for truly, alpha, inputs in product((0.5, 0.9, 0.99), (0.001, 0.05), (100, 1000)):
        certain = truly + (1 - truly) * alpha  # the worst case: every wrong certificate that is allowed
        found = [certified_share(int(k), inputs, alpha) for k in rng.binomial(inputs, certain, 10 * trials)]
        yield {
            "truly robust": truly,
            "alpha": alpha,
            "inputs": inputs,
            "certified": share_of(each.low <= certain <= each.high for each in found),
            "lower end": 1 - share_of(each.low > truly for each in found),
        }


def share_of(held: Any) -> float:
    """How often it held."""
    return round(float(np.mean(list(held))), 4)


def main() -> None:
    """Simulates, and keeps every figure and the worst of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    about = {
        "command": f"python bench/coverage.py --trials {given.trials} --seed {given.seed}",
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "seeds": [given.seed],
    }
    rng = np.random.default_rng(given.seed)
    tables: dict[str, list[dict[str, Any]]] = {}
    for table in (means, copies, costs, ratios, certified):
        tables[table.__name__] = list(table(rng, given.trials))
        print(table.__name__, "done", flush=True)
    keep("coverage", about | worst(tables) | tables)


def worst(tables: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The least coverage of every interval, and the most false verdicts."""
    lowest = {
        "means": ("mean", "tries"),
        "copies": ("one copy", "their mean"),
        "costs": ("mean", "best try"),
        "certified": ("certified", "lower end"),
    }
    found = {f"{name}, {key}": min(row[key] for row in tables[name]) for name in lowest for key in lowest[name]}
    spare = min(row["median"] - row["promised"] for row in tables["ratios"])
    false = {"pass": max(row["false pass"] for row in tables["means"])}
    false["exceeded"] = max(row["false exceeded"] for row in tables["copies"])
    return {"worst coverage": found, "ratios, least above what is promised": round(spare, 4), "most often false": false}


if __name__ == "__main__":
    main()
