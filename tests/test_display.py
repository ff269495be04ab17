"""What progress says."""

import pytest

from leakmeter.display import pace


@pytest.mark.parametrize(
    ("rate", "said"),
    [(1234.5, "1,234/s"), (2.0, "2.0/s"), (0.04, "25 s each"), (0.0, "0.0/s"), (0.0004, "2,500 s each")],
)
def test_slow_steps_say_how_long_one_takes(rate: float, said: str) -> None:
    assert pace(rate) == said
