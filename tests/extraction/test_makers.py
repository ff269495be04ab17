import pytest
import torch

from leakmeter.errors import UsageError
from leakmeter.extraction.makers import MAKERS, draw
from leakmeter.extraction.makers.tabular import tabular
from leakmeter.seeds import stream


@pytest.mark.parametrize("name", list(MAKERS))
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 24), (2, 9, 13)])
def test_images_have_the_shape_fill_the_unit_box_and_differ(name: str, shape: tuple[int, int, int]) -> None:
    images = draw({name: 1}, 40, shape, stream(0, name))
    assert images.shape == (40, *shape)
    assert images.min() >= 0
    assert images.max() <= 1
    assert images.flatten(1).unique(dim=0).shape[0] >= 38
    assert images.std() > 0.05


@pytest.mark.parametrize("name", list(MAKERS))
def test_the_same_stream_draws_the_same_images(name: str) -> None:
    first, second = (draw({name: 1}, 300, (1, 28, 28), stream(3, "maker")) for _ in range(2))
    other = draw({name: 1}, 300, (1, 28, 28), stream(4, "maker"))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_a_stroke_has_ink_on_its_curve_and_none_far_from_it() -> None:
    """Compared with the distance to a densely sampled curve, computed apart."""
    from leakmeter.extraction.makers.strokes import strokes

    control = torch.tensor([[-0.6, -0.6], [0.0, 0.8], [0.6, -0.6]])
    t = torch.linspace(0, 1, 400)[:, None]
    curve = (1 - t) ** 2 * control[0] + 2 * t * (1 - t) * control[1] + t**2 * control[2]

    image = _draw_one_stroke(strokes, control)
    axis = (torch.arange(64) + 0.5) / 32 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    distance = torch.cdist(torch.stack([x, y], -1).reshape(-1, 2), curve).amin(1).reshape(64, 64)
    assert image[distance < 0.03].min() > 0.9
    assert image[distance > 0.3].max() == 0


def _draw_one_stroke(strokes, control):
    import leakmeter.extraction.makers.strokes as module

    def uniform(generator, *size, low=0.0, high=1.0):
        if size[-2:] == (3, 2):
            return control.expand(*size).clone()
        return torch.full(size, (low + high) / 2)

    def chance(generator, probability, *size):
        return torch.zeros(size)

    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(module, "uniform", uniform)
        patched.setattr(module, "chance", chance)
        return strokes(1, (1, 64, 64), torch.Generator())[0, 0]


def test_a_mixture_keeps_its_proportions_in_mixed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"black": lambda n, shape, g: torch.zeros(n, *shape), "white": lambda n, shape, g: torch.ones(n, *shape)}
    monkeypatch.setattr("leakmeter.extraction.makers.MAKERS", plain)
    white = draw({"black": 1, "white": 3}, 1001, (1, 4, 4), stream(0, "mix")).mean((1, 2, 3))
    assert white.sum() == 750
    assert 300 < white[:500].sum() < 450


@pytest.mark.parametrize("mixture", [{}, {"strokes": 0.0}, {"strokes": 1.0, "blobs": -1.0}])
def test_a_mixture_that_draws_nothing_is_refused(mixture: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected a mixture"):
        draw(mixture, 10, (1, 8, 8), stream(0))


def test_an_unknown_maker_is_named() -> None:
    with pytest.raises(UsageError, match="did you mean 'strokes'"):
        draw({"stroke": 1.0}, 10, (1, 8, 8), stream(0))


def test_tables_stay_in_a_box_of_their_own_per_feature_and_reach_its_corners() -> None:
    low, high = torch.tensor([0.0, -5.0, 10.0]), torch.tensor([1.0, 5.0, 1000.0])
    rows = tabular(600, low, high, 3, stream(0, "table"))
    assert rows.shape == (600, 3)
    assert (rows >= low).all()
    assert (rows <= high).all()
    assert ((rows == low) | (rows == high)).all(1).sum() >= 5


def test_a_walk_moves_one_feature_across_its_range() -> None:
    from leakmeter.extraction.makers.tabular import _walks

    walk = _walks(8, 5, stream(1, "walk"))
    moves = walk.std(0) > 0
    assert moves.sum() == 1
    assert walk[:, moves].min() == -1
    assert walk[:, moves].max() == 1


def test_categories_take_their_values_and_groups_are_one_hot() -> None:
    rows = tabular(
        200, torch.tensor(0.0), torch.tensor(9.0), 6, stream(0), levels={0: (1.0, 2.0, 7.0)}, onehot=[(3, 4, 5)]
    )
    assert set(rows[:, 0].tolist()) == {1.0, 2.0, 7.0}
    assert (rows[:, 3:].sum(1) == 1).all()
    assert set(rows[:, 3:].unique().tolist()) == {0.0, 1.0}


def test_an_open_box_is_drawn_from_and_half_a_box_is_refused() -> None:
    rows = tabular(100, None, None, 4, stream(0))
    assert rows.isfinite().all()
    assert rows.abs().max() > 1
    with pytest.raises(UsageError, match="open side"):
        tabular(10, torch.tensor(0.0), None, 4, stream(0))
