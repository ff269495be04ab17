import pytest
import torch
from torch import nn

from leakmeter.data.columns import Columns
from leakmeter.evaluation.score import reference
from leakmeter.extraction.base import extract
from leakmeter.extraction.pictured import AsPicture, pictured
from leakmeter.extraction.sources.glyphs import glyphs
from leakmeter.oracle.oracle import Oracle
from leakmeter.seeds import stream
from leakmeter.victims.load import load_victim


def spec_of(shape, low=0.0, high=1.0, **more):
    net = nn.Sequential(nn.Flatten(), nn.Linear(int(torch.tensor(shape).prod()), 3))
    return load_victim(net, input_shape=shape, low=low, high=high, classes=3, outputs="logits", **more).spec


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((64,), (1, 8, 8)),
        ((784,), (1, 28, 28)),
        ((784, 1), (1, 28, 28)),
        ((28, 28), (1, 28, 28)),
        ((16, 96), (1, 16, 96)),
        ((1, 8, 8), (1, 8, 8)),
        ((3, 32, 32), (3, 32, 32)),
        ((60,), (60,)),
        ((49,), (49,)),
        ((4, 20), (4, 20)),
    ],
)
def test_square_rows_in_one_range_may_be_pictures(shape, seen):
    assert pictured(spec_of(shape)).input_shape == seen


def test_an_open_box_or_ranges_of_all_kinds_are_no_picture():
    assert pictured(spec_of((64,), low=None, high=None)).input_shape == (64,)
    assert pictured(spec_of((64,), low=torch.zeros(64), high=torch.arange(1.0, 65.0))).input_shape == (64,)


def test_a_table_whose_columns_are_known_is_none():
    spec = spec_of((64,))
    columns = Columns.plain(torch.zeros(64), torch.ones(64), 64)
    assert pictured(type(spec)(**{**vars(spec), "columns": columns})).input_shape == (64,)


def test_the_box_of_each_pixel_stays_with_it():
    high = torch.where(torch.arange(64) < 10, 2.0, 16.0)
    spec = pictured(spec_of((64,), low=torch.zeros(64), high=high))
    assert torch.equal(spec.high.flatten(), high)
    drawn = glyphs(5, spec, stream(0))
    assert drawn.shape == (5, 1, 8, 8)
    assert bool((drawn.flatten(1) <= high).all())


def test_a_flat_victim_of_pictures_is_asked_pictures_and_its_copy_takes_rows():
    torch.manual_seed(0)
    victim = load_victim(
        nn.Linear(64, 4, bias=False), input_shape=(64,), low=0.0, high=16.0, classes=4, outputs="logits"
    )
    oracle = Oracle(victim, "labels", 120)
    test = glyphs(200, pictured(victim.spec), stream(1)).reshape(-1, 64)
    copy = extract("auto", oracle, seed=0, test=reference(Oracle(victim, "labels"), test), effort=0.02)
    assert {"glyphs", "uniform", "offspring"} <= set(copy.notes["sources"])
    assert isinstance(copy.substitute, AsPicture)
    assert copy.substitute(test[:3]).shape == (3, 4)
    assert copy.queries.shape[1:] == (1, 8, 8)
    assert oracle.ledger.spent() == 120
