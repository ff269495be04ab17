"""Reading a known defense's answers: the Bayes mean, learned on the attacker's own shadow answers."""

import pytest
import torch
from torch import Tensor

from leakmeter.defenses import parse
from leakmeter.defenses.recovery import recovered
from leakmeter.defenses.shadow import shadow_answers


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def divergence(truth: Tensor, read: Tensor) -> float:
    return float((truth * (truth.clamp_min(1e-12) / read.clamp_min(1e-4)).log()).sum(1).mean())


@pytest.mark.parametrize("text", ["mad:0.8", "misinformation:0.6", "modelguard-s:1"])
def test_knowing_the_defense_brings_answers_nearer_to_the_truth(text: str) -> None:
    truth = shadow_answers(2000, 4, stream(5))
    defense = parse(text)[0]
    shown = defense.change(truth, stream(6))
    read = recovered(defense, shown)
    assert torch.allclose(read.sum(1), torch.ones(2000, dtype=torch.float64))
    assert divergence(truth, read) < 0.6 * divergence(truth, shown)


def test_the_reading_is_the_mean_of_what_is_shown_alike() -> None:
    """Rounded to whole numbers, all that is left is the label: the mean is the same for all of a label."""
    defense = parse("rounding:0")[0]
    truth = shadow_answers(40_000, 3, stream(8))
    read = recovered(defense, defense.change(truth[:500], stream(9)))
    own = truth.gather(1, truth.argmax(1, keepdim=True)).mean()
    assert read.amax(1).mean().item() == pytest.approx(own.item(), abs=0.03)
    assert torch.equal(read.argmax(1), truth[:500].argmax(1))


def test_it_touches_no_global_randomness_and_repeats() -> None:
    from leakmeter.defenses.recovery import _learned

    defense, shown = parse("mad:0.3")[0], shadow_answers(20, 3, stream(1))
    before = torch.get_rng_state()
    with torch.inference_mode():
        first = recovered(defense, shown)
    assert torch.equal(before, torch.get_rng_state())
    _learned.cache_clear()
    assert torch.equal(first, recovered(defense, shown))
