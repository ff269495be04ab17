import base64
import io

import pytest
from PIL import Image

from leakmeter.report.pictures import gallery


def test_arms_with_the_same_picture_share_it(make_audit, hang_pictures, tmp_path):
    result = make_audit(attacks=2, seeds=2)
    hang_pictures(result, tmp_path, size=(64, 128))
    first = (tmp_path / "cells" / result.cells[0].id / "queries.png").read_bytes()
    for cell in result.cells:
        if cell.attack == "procedural":
            (tmp_path / "cells" / cell.id / "queries.png").write_bytes(first)
    shown = gallery(result, tmp_path, "queries.png").shown
    assert [picture.arms for picture in shown] == [
        ["procedural, seeing probs", "procedural, seeing labels"],
        ["dfme, seeing probs"],
        ["dfme, seeing labels"],
    ]
    assert base64.b64decode(shown[0].source.partition(",")[2]) == first


def test_pictures_are_few_and_small(make_audit, hang_pictures, tmp_path):
    result = make_audit(attacks=8, seeds=1)
    hang_pictures(result, tmp_path, size=(400, 900))
    made = gallery(result, tmp_path, "queries.png")
    assert (len(made.shown), made.left_out) == (12, 4)
    for picture in made.shown:
        content = base64.b64decode(picture.source.partition(",")[2])
        assert len(content) <= 120_000
        assert Image.open(io.BytesIO(content)).size[0] >= 100


@pytest.mark.parametrize("content", [b"", b"<script>", b"\x89PNG\r\n\x1a\nbroken"])
def test_what_is_no_picture_is_left_out(make_audit, tmp_path, content):
    result = make_audit(attacks=1, views=("probs",), seeds=1)
    place = tmp_path / "cells" / result.cells[0].id
    place.mkdir(parents=True)
    (place / "queries.png").write_bytes(content)
    assert gallery(result, tmp_path, "queries.png").shown == []


def test_an_id_does_not_lead_out_of_the_folder(make_audit, tmp_path):
    result = make_audit(attacks=1, views=("probs",), seeds=2)
    (tmp_path / "run" / "cells").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "queries.png")
    cells = [cell.model_copy(update={"id": "../.."}) for cell in result.cells]
    assert gallery(result.model_copy(update={"cells": cells}), tmp_path / "run", "queries.png").shown == []
