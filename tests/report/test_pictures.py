import io

import pytest
from PIL import Image

from leakmeter.report.blocks import Picture
from leakmeter.report.pictures import gallery


def shown(result, folder) -> list[Picture]:
    return [block for block in gallery(result, folder, "queries.png", "sent by") if isinstance(block, Picture)]


def test_arms_with_the_same_picture_share_it(make_audit, hang_pictures, tmp_path):
    result = make_audit(attacks=2, seeds=2)
    hang_pictures(result, tmp_path, size=(64, 128))
    first = (tmp_path / "cells" / result.cells[0].id / "queries.png").read_bytes()
    for cell in result.cells:
        if cell.attack == "procedural":
            (tmp_path / "cells" / cell.id / "queries.png").write_bytes(first)
    pictures = shown(result, tmp_path)
    assert [picture.caption for picture in pictures] == [
        "procedural, seeing probs; procedural, seeing labels",
        "dfme, seeing probs",
        "dfme, seeing labels",
    ]
    assert pictures[0].png == first
    assert (tmp_path / pictures[0].path).read_bytes() == first


def test_pictures_are_few_and_small(make_audit, hang_pictures, tmp_path):
    result = make_audit(attacks=8, seeds=1)
    hang_pictures(result, tmp_path, size=(400, 900))
    *pictures, rest = gallery(result, tmp_path, "queries.png", "sent by")
    assert len(pictures) == 12
    assert rest.parts == ("4 more are in the run folder.",)
    for picture in pictures:
        assert len(picture.png) <= 120_000
        assert Image.open(io.BytesIO(picture.png)).size[0] >= 100


@pytest.mark.parametrize("content", [b"", b"<script>", b"\x89PNG\r\n\x1a\nbroken"])
def test_what_is_no_picture_is_left_out(make_audit, tmp_path, content):
    result = make_audit(attacks=1, views=("probs",), seeds=1)
    place = tmp_path / "cells" / result.cells[0].id
    place.mkdir(parents=True)
    (place / "queries.png").write_bytes(content)
    assert shown(result, tmp_path) == []


def test_an_id_does_not_lead_out_of_the_folder(make_audit, tmp_path):
    result = make_audit(attacks=1, views=("probs",), seeds=2)
    (tmp_path / "run" / "cells").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "queries.png")
    cells = [cell.model_copy(update={"id": "../.."}) for cell in result.cells]
    assert shown(result.model_copy(update={"cells": cells}), tmp_path / "run") == []
