"""The best a thief gets in several tries: how many reach a line, and what a few tries can and cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from leakmeter.evaluation.intervals import CONFIDENCE, Interval, attack_mean, exact

MOST_SEEDS = 200
"""Nobody runs more; a statement that would take them is not to be had."""


class Tries(BaseModel):
    """Copies of one attack against one line of fidelity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: float
    made: int
    reached: int
    """Copies that measured at the line or above it."""
    share: Interval
    """How often a try reaches the line, on the population of inputs."""

    def words(self) -> str:
        """As in "2 of 3 tries reach 90% (9% to 99% of all tries would)"."""
        tries = "1 try reaches" if self.made == 1 else f"{self.made} tries reach"
        return f"{self.reached} of {tries} {self.line:.1%} ({self.share.low:.0%} to {self.share.high:.0%} of all would)"


def share_of_tries(rates: Sequence[float], inputs: int, line: float, confidence: float = CONFIDENCE) -> Tries:
    """How often a try reaches `line`, from one rate a seed on the same test inputs.

    A copy near the line may be on either side of it on other inputs: the lower end counts those that are above it on
    any, the upper end those that are not below it on all.
    """
    ends = [exact(rate * inputs, inputs, confidence) for rate in rates]
    surely, perhaps = (sum(end >= line for end in side) for side in zip(*((e.low, e.high) for e in ends), strict=True))
    tries = len(rates)
    share = Interval(
        low=exact(surely, tries, confidence).low,
        high=exact(perhaps, tries, confidence).high,
        n=tries,
        method="clopper-pearson over seeds",
        confidence=confidence,
    )
    return Tries(line=line, made=tries, reached=sum(rate >= line for rate in rates), share=share)


def first_made(
    rates: Mapping[int, Sequence[float]], inputs: int, line: float, confidence: float = CONFIDENCE
) -> tuple[int, int | None]:
    """With fewer queries than the first number no try had a copy above `line`; with the second some try had one.

    Args:
        rates: for each number of queries, rising, one rate a seed; the curves of single copies are taken to rise.
        inputs: test inputs behind each rate.
        line: the fidelity.
        confidence: of both numbers together, for the copies made and all inputs.
    """
    tries = max(len(found) for found in rates.values())
    low, made = 1, None
    for queries, found in rates.items():
        if any(exact(rate * inputs, inputs, 1 - (1 - confidence) / tries).high >= line for rate in found):
            break
        low = queries + 1
    for queries, found in rates.items():
        if any(exact(rate * inputs, inputs, 1 - (1 - confidence) / (tries * len(rates))).low >= line for rate in found):
            made = queries
            break
    return low, made


def seeds_to_pass(rates: Sequence[float], inputs: int, line: float) -> int | None:
    """How many seeds that go on like these would put the attack's mean below `line`; None: more than anybody runs."""

    def below(seeds: int) -> bool:
        return attack_mean([rates[k % len(rates)] for k in range(seeds)], inputs).high < line

    if exact(fmean(rates) * inputs, inputs).high >= line:
        return None  # whatever the seeds
    low, high = len(rates), 2 * len(rates)
    while not below(high):
        if high >= MOST_SEEDS:
            return None
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


def seeds_for_share(share: float, confidence: float = CONFIDENCE) -> int:
    """How many tries, all of them short of the line, leave no larger `share` of tries possible."""
    return ceil(log((1 - confidence) / 2) / log(1 - share))
