"""The owner's policy, line by line, against the best a thief gets: what these tries leave open stays undecided."""

from __future__ import annotations

from leakmeter.evaluation.intervals import CONFIDENCE, attack_mean, exact
from leakmeter.evaluation.tries import seeds_for_share, seeds_to_pass, share_of_tries
from leakmeter.plan import Policy
from leakmeter.results import Arm, Ruling


def rule(policy: Policy, arms: list[Arm], *, real: bool = True) -> list[Ruling]:
    """Each line of the policy against every attacker; without `real` test inputs only a whole copy decides anything.

    Exceeded: some try made a copy that is surely above the line; that others failed is no protection. Met: no copy may
    be above it, and no attack may reach it on average, over all seeds and inputs. Else undecided.
    """
    attackers = [arm for arm in arms if not arm.control]
    rulings = []
    if policy.max_fidelity is not None:
        limit = policy.max_fidelity
        name = f"fidelity at {limit.queries:,} queries"
        rulings.append(_rule(name, limit.queries, limit.value, limit.share, attackers, real=real))
    if policy.min_copy_cost is not None:
        floor = policy.min_copy_cost
        name = f"queries to {floor.fidelity:.0%} fidelity"
        rulings.append(_rule(name, floor.queries, floor.fidelity, None, attackers, real=real))
    return rulings


def _rule(name: str, queries: int, line: float, share: float | None, arms: list[Arm], *, real: bool) -> Ruling:
    held = {_against(arm): (arm, _held(arm, queries)) for arm in arms if arm.copies}
    if not held:
        return Ruling(rule=name, outcome="undecided", message="no attack was measured")
    if not real:
        if (message := _whole(held)) is not None:
            return Ruling(rule=name, outcome="exceeded", message=message)
        return Ruling(rule=name, outcome="undecided", message=_NO_DATA)
    if (message := _trivial(held, line)) is not None:
        return Ruling(rule=name, outcome="undecided", message=message)
    if (message := _exceeded(held, line)) is not None:
        return Ruling(rule=name, outcome="exceeded", message=message)
    if (most := max(arm.queries for arm, _ in held.values())) < queries:
        message = f"only {most:,} queries were spent; raise the budget to {queries:,}"
        return Ruling(rule=name, outcome="undecided", message=message)
    for who, (arm, points) in held.items():
        if (message := _open(who, arm, points, line, share)) is not None:
            return Ruling(rule=name, outcome="undecided", message=message)
    return Ruling(rule=name, outcome="pass", message=_met(held, line))


_NO_DATA = "there were no test data, and agreement on inputs drawn by chance decides nothing; give [data], --data"
_Held = dict[str, tuple[Arm, list[list[float]]]]


def _held(arm: Arm, queries: int) -> list[list[float]]:
    """The copies, one a seed, at each point of the curve that costs no more than `queries`."""
    return [rates for point, rates in zip(arm.curve, arm.copies, strict=True) if point[0] <= queries]


def _exceeded(held: _Held, line: float) -> str | None:
    """Whether some try ends with a copy that is surely above the line, all of them looked at."""
    if (message := _whole(held)) is not None:
        return message
    looks = sum(len(points[-1]) for _, points in held.values() if points)
    found = [
        (rate, exact(rate * arm.inputs, arm.inputs, 1 - (1 - CONFIDENCE) / looks), who, points[-1], arm)
        for who, (arm, points) in held.items()
        if points
        for rate in points[-1]
    ]
    above = [each for each in found if each[1].low > line]
    if not above:
        return None
    rate, ends, who, rates, arm = max(above, key=lambda each: each[0])
    tries = share_of_tries(rates, arm.inputs, line)
    return f"{who} reaches {rate:.1%} in its best try ({ends.low:.1%} to {ends.high:.1%}); {tries.words()}"


def _whole(held: _Held) -> str | None:
    """Whether some attack ends with the model itself."""
    for who, (arm, points) in held.items():
        if arm.whole and len(points) == len(arm.curve):
            return f"{who} holds the whole model after {arm.queries:,} queries"
    return None


def _trivial(held: _Held, line: float) -> str | None:
    """Whether the line lies below what a copy gets that always names one class, and no copy does better than that."""
    constant = max((arm.constant or 0 for arm, _ in held.values()), default=0)
    balanced = max((arm.balanced or 0 for arm, _ in held.values()), default=0)
    if constant < line or balanced >= line:
        return None
    return (
        f"always naming one class agrees on {constant:.1%}, so a line at {line:.1%} says nothing; with every class "
        f"counted once the best copies agree on {balanced:.1%}: set the line above {constant:.1%}"
    )


def _open(who: str, arm: Arm, points: list[list[float]], line: float, share: float | None) -> str | None:
    """Why these tries cannot exclude that the attack reaches the line; None: they can."""
    for rates in points:
        best = exact(max(rates) * arm.inputs, arm.inputs)
        if best.high >= line:
            return (
                f"{who} reaches {max(rates):.1%} in its best try ({best.low:.1%} to {best.high:.1%} on all inputs): "
                f"{arm.inputs:,} test inputs cannot tell that from {line:.1%}"
            )
        mean = attack_mean(rates, arm.inputs)
        if mean.high >= line:
            return (
                f"{who} reaches {_mean(rates):.1%} on average over {_seeds(len(rates))}, which cannot exclude up to "
                f"{mean.high:.1%} over all seeds, above {line:.1%}; {_wanted(seeds_to_pass(rates, arm.inputs, line))}"
            )
        tries = share_of_tries(rates, arm.inputs, line)
        if share is not None and tries.share.high > share:
            return (
                f"{who}: {tries.words()}, more than the {share:.0%} allowed; "
                f"{_seeds(seeds_for_share(share))}, all of them short of the line, would settle it"
            )
    return None


def _met(held: _Held, line: float) -> str:
    finals = {who: (arm, points[-1]) for who, (arm, points) in held.items() if points}
    if not finals:
        return "no attack had a copy by then"
    worst, (arm, rates) = max(finals.items(), key=lambda item: max(item[1][1]))
    tries, mean = share_of_tries(rates, arm.inputs, line), attack_mean(rates, arm.inputs)
    return (
        f"the strongest, {worst}, reaches {max(rates):.1%} in its best try and at most {mean.high:.1%} on average, "
        f"below {line:.1%}; {tries.words()}"
    )


def _against(arm: Arm) -> str:
    return f"{arm.label} under {arm.view}" + ("" if arm.defense == "none" else f" behind {arm.defense}")


def _mean(rates: list[float]) -> float:
    return sum(rates) / len(rates)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count > 1 else ''}"


def _wanted(seeds: int | None) -> str:
    return "no number of seeds would settle it" if seeds is None else f"it would take {_seeds(seeds)} like these"
