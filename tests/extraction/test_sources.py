import math
from itertools import pairwise

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from leakmeter.errors import UsageError
from leakmeter.extraction.sources import POINTS, SOURCES, usual_sources
from leakmeter.extraction.sources.asking import POOL, Asker, hedged, source_weights
from leakmeter.extraction.sources.photographs import mixtures, pyramid, sample_pyramids
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.victims.load import load_victim
from leakmeter.victims.victim import Victim


def make_victim(shape=(1, 8, 8), low=0.0, high=1.0, classes=3) -> Victim:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))
    return load_victim(net, input_shape=shape, low=low, high=high, classes=classes, outputs="logits")


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ((1, 8, 8), 0.0, 1.0),
        ((3, 20, 32), -1.0, 3.0),
        ((4, 9, 7), 0.0, 1.0),
        ((3, 16, 16), None, None),
        ((5,), 0.0, 2.0),
    ],
)
def test_every_usual_source_draws_inside_the_box_and_the_same_for_the_same_seed(shape, low, high) -> None:
    spec = make_victim(shape, low, high).spec
    for name in usual_sources(spec):
        x = SOURCES[name](12, spec, stream(1))
        assert x.shape == (12, *shape)
        spec.admit(x)
        assert torch.equal(x, SOURCES[name](12, spec, stream(1)))
        assert not torch.equal(x[0], x[1])


def test_an_open_box_has_no_corners() -> None:
    spec = make_victim((5,), None, None).spec
    assert "corners" not in usual_sources(spec)
    with pytest.raises(UsageError, match="give low and high"):
        SOURCES["corners"](3, spec, stream(0))


def test_corners_are_corners_and_fair() -> None:
    spec = make_victim((20,), -1.0, 2.0).spec
    x = SOURCES["corners"](500, spec, stream(0))
    assert set(x.unique().tolist()) == {-1.0, 2.0}
    assert abs(float((x > 0).float().mean()) - 0.5) < 0.02


def test_a_grey_photograph_gives_grey_levels_between_its_own_ends() -> None:
    """Of a photograph of one colour every crop, turn and mixture is of one colour too."""
    spec = make_victim((3, 12, 12)).spec
    x = mixtures([pyramid(torch.full((3, 50, 60), 0.5))], 20, spec, stream(0))
    flat = x.flatten(2)
    assert torch.allclose(flat.amax(2) - flat.amin(2), torch.zeros(()), atol=0.9)  # pieces have tints of their own
    plain = (flat.amax(2) - flat.amin(2)).amax(1) < 1e-5
    assert plain.any()  # where no piece was pasted nothing but the colour changed


def test_pyramids_halve_down_to_small_pictures() -> None:
    sides = [min(level.shape[1:]) for level in sample_pyramids()[0]]
    assert all(abs(small - large / 2) <= 0.5 for large, small in pairwise(sides))
    assert sides[-1] <= 24


@example({"drawings": 1e-320, "uniform": 0.0})
@given(st.dictionaries(st.sampled_from([*POINTS, "drawings", "glyphs", POOL]), st.floats(0, 1), min_size=1))
def test_points_get_a_tenth_at_most_where_pictures_tell_something(worth) -> None:
    weights = source_weights(worth, POINTS)
    assert all(math.isfinite(weight) and weight >= 0 for weight in weights.values())
    pictures = {name: value for name, value in worth.items() if name not in POINTS}
    if pictures and max(pictures.values()) >= 0.2:
        points = sum(weight for name, weight in weights.items() if name in POINTS)
        assert points <= 0.1001 * sum(weights.values())
    best = max(pictures, key=pictures.__getitem__, default=None)
    assert best is None or weights[best] == max(weights[name] for name in pictures)


@given(st.floats(1e-4, 0.9))
def test_of_a_victim_that_is_never_sure_sources_are_told_apart_as_well(scale) -> None:
    worth = {"drawings": 0.5 * scale, "glyphs": 0.45 * scale, "uniform": 0.01 * scale}
    weights = source_weights(worth, POINTS)
    assert weights["glyphs"] == pytest.approx(weights["drawings"] / 2)
    assert weights["uniform"] < 0.01 * weights["drawings"]


@given(st.dictionaries(st.sampled_from([*POINTS, "drawings", "glyphs", POOL]), st.floats(0, 1), min_size=1))
def test_a_picture_source_that_tells_a_good_part_of_the_best_is_asked_for_more_than_its_rank(worth) -> None:
    weights, plain = hedged(worth, POINTS), source_weights(worth, POINTS)
    asked, before = ({n: w / sum(some.values()) for n, w in some.items()} for some in (weights, plain))
    pictures = [name for name in worth if name not in POINTS]
    for name in pictures:
        if worth[name] > 0 and worth[name] >= 0.3 * max(worth.values()):
            assert asked[name] >= 0.3 / len(pictures) - 1e-9
    assert all(asked[name] <= before[name] + 1e-9 for name in worth if name in POINTS)  # of points never more
    assert pictures or asked == before


@given(st.dictionaries(st.sampled_from(["uniform", "corners", "rows"]), st.floats(0, 1), min_size=1))
def test_a_student_picks_from_rows_of_every_source_whatever_blind_ones_told(worth) -> None:
    weights = hedged(worth, scouted=True)
    assert all(weights[name] >= 0.5 / len(worth) * sum(weights.values()) - 1e-9 for name in worth)


def test_an_informative_source_is_asked_more_and_every_source_a_little() -> None:
    """A victim that only looks at the first pixel's side: of points half answer each class, of a black pool all one."""

    class Side(nn.Module):
        def forward(self, x):
            first = (x.flatten(1)[:, :1] - 0.5) * 50
            return torch.cat([first, -first], 1)

    victim = load_victim(Side(), input_shape=(6,), low=0.0, high=1.0, classes=2, outputs="logits")
    asker = Asker(Oracle(victim, "probs", 400), ("corners",), torch.zeros(1000, 6), stream(3))
    asker.explore(60)
    asker.exploit(400, None)
    counts, told = asker.counts(), asker.information()
    assert counts["corners"] + counts[POOL] == 400
    assert counts[POOL] < 40 < counts["corners"]
    assert told["corners"] > 0.95
    assert told[POOL] < 0.01


def test_a_pool_is_asked_without_repeats_and_what_it_lacks_comes_from_the_others() -> None:
    victim = make_victim((6,))
    pool = torch.rand(50, 6, generator=stream(8))
    asker = Asker(Oracle(victim, "labels", 200), ("uniform",), pool, stream(3))
    asker.explore(20)
    asker.exploit(200, None)
    assert asker.counts()[POOL] <= 50
    assert len(asker.x) == 200
    assert len(asker.x.unique(dim=0)) == 200


def test_small_pictures_that_a_scout_picked_are_not_held_out_while_there_are_others() -> None:
    victim = make_victim((1, 8, 8))
    asker = Asker(Oracle(victim, "labels", 400), ("drawings", "glyphs", "uniform"), None, stream(3))
    asker.explore(90)
    before = set(asker.plausible().tolist())
    asker.exploit(240, nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
    assert set(asker.plausible().tolist()) == before
    assert 40 <= len(before) < 90
    asker.exploit(300, None)
    assert len(asker.plausible()) > len(before)
    assert min(set(asker.plausible().tolist()) - before) >= 240
