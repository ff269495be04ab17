"""The table an owner chooses an explanation by."""

from pathlib import Path

import pytest

from leakmeter.report.blocks import Table
from leakmeter.report.sections.explanations import _some, section


def test_the_least_dear_first_beside_what_is_had_without(full_audit) -> None:
    found = section(full_audit, Path())
    assert found is not None
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert [row.entries[0].text for row in table.rows] == ["nothing", "occlusion:2", "gradient"]
    assert [row.control for row in table.rows] == [True, False, False]
    copies = [[row.entries[place].text for row in table.rows] for place in (1, -2)]
    assert all(one <= other for one, other in zip(copies[0], copies[1], strict=True))
    assert table.rows[1].entries[-1].text == "–"
    assert float(table.rows[2].entries[-1].text.removeprefix("at least ")) > 1


@pytest.mark.parametrize(
    ("stops", "shown"),
    [([5, 20], [5, 20]), ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 3, 5, 7, 9]), ([1, 2, 3, 4, 5, 6], [1, 2, 3, 5, 6])],
)
def test_a_table_has_room_for_five(stops: list[int], shown: list[int]) -> None:
    assert _some(stops) == shown
