"""Where single weights are asked for: in a box inside of it, wherever the search for such a place begins."""

import torch

from leakmeter.extraction.exact.corners import find_corner
from leakmeter.extraction.exact.stack import Layer, Stack

D, UNITS, MARGIN = 60, 8, 1e-3


def test_beside_black_a_corner_is_found_inside_the_box() -> None:
    draw = lambda *shape: torch.randn(*shape).double()  # noqa: E731
    start = torch.rand(D).double() * (torch.arange(D) % 3 == 0)  # most features are as small as they can be
    first = Layer.of(draw(UNITS, D), draw(UNITS))
    first.bias -= first.weight @ start  # somewhere near its units switch
    known = torch.arange(UNITS) < UNITS - 2
    row = draw(UNITS) * known
    top = Layer.of(row[None], -(row @ Stack([first]).features(start[None])[0])[None], known[None])
    stack, wanted = Stack([first, top]), ~known
    for low, high in ((0.0, 1.0), (-torch.inf, torch.inf)):
        box = torch.full((D,), low).double(), torch.full((D,), high).double()
        corner = find_corner(stack, 0, wanted, start, (MARGIN,), box)
        assert corner is not None
        tips = torch.stack([corner.origin + corner.along, corner.origin - corner.along])
        assert bool(((tips >= low) & (tips <= high)).all())
        below, above = (z[0] for z in stack.inputs(corner.origin[None]))
        steep = first.weight.norm(dim=1)
        assert bool((below[wanted] > 0).all() & (below[wanted] < 2 * MARGIN * steep[wanted]).all())
        assert abs(float(above)) < MARGIN
