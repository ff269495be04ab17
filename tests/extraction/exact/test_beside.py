"""Units of a first layer that are on everywhere, and candidates for it that are units of layers above."""

from dataclasses import replace

import torch

from leakmeter.extraction.exact.asking import Asker
from leakmeter.extraction.exact.bank import Bank, first_layer
from leakmeter.extraction.exact.beside import beside
from leakmeter.extraction.exact.kinks import Trace
from leakmeter.extraction.exact.sight import seen_from_both_sides
from leakmeter.extraction.exact.stack import Layer
from leakmeter.extraction.exact.survey import Survey, gradient_survey
from leakmeter.extraction.exact.suspects import Suspects
from leakmeter.studies.ours.exact_depth import deep_network

D, KNOWN, HIDDEN, BENDS = 20, 6, 2, 400


def line(points: torch.Tensor, normals: torch.Tensor, short: bool = False) -> Survey:
    """A line that bends at such points: where it goes between them does not matter here."""
    n = len(points)
    nothing = torch.zeros(n).double()
    cells = Trace(nothing, torch.zeros(n, 1).double(), torch.ones(n, 1, D).double(), nothing, nothing)
    found = Survey(points[0], points[-1] - points[0], (0.0, 1.0), nothing, normals, nothing + 1e-9, cells, short)
    object.__setattr__(found, "at", lambda _: points)
    return found


def test_a_direction_of_units_that_are_always_on_carries_what_it_shares_with_known_normals() -> None:
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator).double()  # noqa: E731
    weight, x = draw(KNOWN + HIDDEN, D), draw(BENDS, D)
    on = (x @ weight.T > 0).double()
    on[:, KNOWN:] = 1.0  # as a large bias would have it
    normals = (draw(BENDS, KNOWN + HIDDEN) * on) @ weight
    bank = Bank([line(x, normals / normals.norm(dim=1, keepdim=True))])
    layer = Layer.of(weight[:KNOWN], torch.zeros(KNOWN).double())
    found = beside(layer, bank, bank.clear, 1e-6)
    assert len(found) == HIDDEN
    # the two span what the hidden units' own normals span, not only the part beside the known ones
    seen = torch.linalg.svd(found, full_matrices=False)[2]
    hidden = weight[KNOWN:]
    assert float((hidden - hidden @ seen.T @ seen).norm() / hidden.norm()) < 1e-6


def test_units_that_are_missing_are_not_taken_for_such_that_are_always_on() -> None:
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator).double()  # noqa: E731
    weight, x = draw(KNOWN + HIDDEN, D), draw(BENDS, D)
    on = (x @ weight.T > 0).double()
    on[BENDS // 3 :, KNOWN:] = 0.0  # most bends do not see the two that are missing
    normals = (draw(BENDS, KNOWN + HIDDEN) * on) @ weight
    bank = Bank([line(x, normals / normals.norm(dim=1, keepdim=True))])
    assert not len(beside(Layer.of(weight[:KNOWN], torch.zeros(KNOWN).double()), bank, bank.clear, 1e-6))


def test_a_hyperplane_on_which_nothing_bends_elsewhere_is_no_unit_of_the_first_layer() -> None:
    generator = torch.Generator().manual_seed(1)
    layer = Layer.of(torch.eye(D).double()[:3], torch.zeros(3).double())
    points = torch.randn(40, D, generator=generator).double()
    bank = Bank([line(p[None], layer.weight[:1]) for p in points])
    matched = torch.zeros(40, 3, dtype=torch.bool)
    matched[0, 0] = matched[1, 1] = True  # the third was met nowhere: nobody asks about it
    asked = []

    def explore(origin: torch.Tensor, along: torch.Tensor, careful: bool) -> Survey:
        asked.append(origin)
        assert not careful
        return line(origin[None], layer.weight[:1], short=True)  # the victim bends along the first unit's normal only

    suspects = Suspects(explore, 1e-6)
    refuted = suspects.refuted(layer, bank, matched)
    assert refuted.tolist() == [False, True, False]
    assert len(asked) == 3
    suspects.refuted(layer, bank, matched)
    assert len(asked) == 3, "once of what bends, twice of what does not; and never again"


def test_units_of_the_first_layer_that_one_line_met_are_told_by_asking_elsewhere(oracle) -> None:
    net = deep_network((60, 40, 10, 3), seed=1)
    asker, generator = Asker(oracle(net, "logits+gradient", 60, box=True)), torch.Generator().manual_seed(0)
    ends = torch.rand(2, 9, 60, generator=generator, dtype=torch.float64).round()
    surveys = [gradient_survey(asker, a, b - a, (0.0, 1.0), False) for a, b in ends.transpose(0, 1)]

    def explore(origin: torch.Tensor, along: torch.Tensor, careful: bool) -> Survey:
        return gradient_survey(asker, origin, along, (-1.0, 1.0), True, None, not careful)

    bank = Bank(surveys)
    several = first_layer(bank, 5e-7)
    assert several is not None
    once = Suspects(explore, 5e-7).met_once(several, bank)
    rows = net[0].weight.detach() / net[0].weight.detach().norm(dim=1, keepdim=True)
    cosine = (torch.cat([several.weight, once.weight]) @ rows.T).abs()
    assert len(once.bias) > 2
    assert bool((cosine.amax(1) > 1 - 1e-9).all())
    assert len(set(cosine.argmax(1).tolist())) == len(cosine), "none is found twice"


def test_a_line_of_which_no_cell_is_known_shows_nothing() -> None:
    points = torch.randn(3, D).double()
    whole = line(points, torch.eye(D).double()[:3])
    bank = Bank(
        [whole, replace(whole, t=whole.t[:0], normals=whole.normals[:0], error=whole.error[:0], cells=whole.cells[:0])]
    )
    layer = Layer.of(torch.eye(D).double()[:2], torch.zeros(2).double())
    assert len(seen_from_both_sides(layer, bank, 1e-6)) == 2
