"""How long trials and copies of a choosing attacker take, in seconds of the machine that is the measure."""

from __future__ import annotations

import math

from leakmeter.victims.spec import VictimSpec

_TRIALS, _TRIALS_LARGE, _SHORTEST = 8, 12, 1.0  # a trial takes this fraction of a copy's time, some seconds at least
SMALL = 1024  # features up to which a network has time enough to learn twice
_IN_TIME, _LEAST_LONGER = 3.0, 2.0  # of a copy's time this fraction, or so many trials, show whether it is only slower
_LITTLE, _LITTLE_PICTURES, _TINY = 0.2, 0.1, 256  # effort below which also these are cut; of larger pictures later
_FIRST_STEPS, _FIRST_STEP, _A_FEATURE = 800, 3.5e-3, 6e-6  # and their seconds: of a step, and for each feature
_ENOUGH = 2000  # answers that want all of them
_HURRY = 3.0  # times the first steps: with less time for a copy little is tried, but for as long as that


def first_seconds(n: int, spec: VictimSpec) -> float:
    """How long the first some hundred steps take of a network that learns `n` answers to small pictures.

    With fewer it has seen too little for any choice to be a good one; of other inputs 0.
    """
    if len(spec.input_shape) != 3 or spec.features > SMALL:
        return 0.0
    return _FIRST_STEPS * (_FIRST_STEP + spec.features * _A_FEATURE) * math.sqrt(min(max(n / _ENOUGH, 0.05), 1.0))


def in_a_hurry(copy: float, spec: VictimSpec, n: int) -> bool:
    """Whether a copy of `n` answers that takes `copy` seconds has time for little more than a network's first steps."""
    return copy < _HURRY * first_seconds(n, spec)


def trial_seconds(copy: float, effort: float, spec: VictimSpec, n: int) -> float:
    """How long a trial of `n` answers may take where a copy takes `copy` seconds: a fraction, some seconds at least."""
    share = _TRIALS if spec.features <= SMALL else _TRIALS_LARGE
    little = _LITTLE_PICTURES if len(spec.input_shape) == 3 and spec.features > _TINY else _LITTLE
    return max(copy / share, _SHORTEST * min(1.0, effort / little), first_seconds(n, spec))


def longer_seconds(copy: float, trial: float) -> float:
    """How long are trials that show whether what sees most of a picture is only slower."""
    return max(copy / _IN_TIME, _LEAST_LONGER * trial)


def growth(*, last: bool) -> float:
    """How many times as many answers there must be for all to be compared anew; `last`: for the copy that counts."""
    return 2.0 if last else 4.0
