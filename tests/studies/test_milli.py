"""The studies of Milli et al.: their arithmetic, and a rehearsal on the digits every user has."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import leakmeter as lm
from leakmeter.data.catalogue import load
from leakmeter.studies.milli import _learning, gaussian
from leakmeter.studies.milli._learning import GPU_ONLY, Panel, Study
from leakmeter.studies.milli._table import (
    GRADIENTS,
    MEMBERSHIP,
    SMOOTHGRAD,
    SMOOTHGRAD_1000,
    Claim,
    Measured,
    accuracy_at,
    gap,
    queries_for,
    times_fewer,
    worth,
)
from leakmeter.studies.milli._victims import shared_out
from leakmeter.studies.options import StudyOptions
from leakmeter.studies.ours import smoothgrad_maps
from leakmeter.training.loop import Recipe

SMALL = {"victim": "linear", "student": "linear"}
MEASURED = Measured(
    0.97,
    {
        MEMBERSHIP: {10: [0.3, 0.3], 1000: [0.9, 0.9]},
        GRADIENTS: {1: [0.3, 0.3], 10: [0.9, 0.92], 100: [0.95, 0.96]},
        SMOOTHGRAD: {10: [0.89, 0.91]},
    },
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def study(out: Path, **settings: object) -> Study:
    return Study("milli-test", StudyOptions(out, seeds=2, **{"quick": True, **settings}))


def test_claims_are_measured_as_they_are_worded() -> None:
    assert accuracy_at(GRADIENTS, 10)(MEASURED)[0].startswith("91.0% from 10 queries")
    assert queries_for(MEMBERSHIP, 0.9)(MEASURED)[0].startswith("11 to 1,000 / 11 to 1,000 queries for 90%")
    assert queries_for(MEMBERSHIP, 0.95)(MEASURED)[0].startswith("more than 1,000 / more than 1,000")
    assert gap(GRADIENTS, SMOOTHGRAD, 10)(MEASURED)[0].startswith("-1.0 points at 10 queries")
    assert "makes a 90% copy 23.5× cheaper" in times_fewer(0.9)(MEASURED)[0]
    assert worth()(MEASURED)[0].startswith(
        "1 to 10× at 1; more than 10.5 to 100× at 10; more than 10 to 10× at 100 queries"
    )
    assert "not comparable" in times_fewer(0.95)(MEASURED)[0]


@pytest.mark.parametrize(
    "measure",
    [accuracy_at(GRADIENTS, 7), queries_for("none", 0.5), gap(GRADIENTS, SMOOTHGRAD, 1), times_fewer(arm="x")],
)
def test_what_was_not_run_is_said(measure) -> None:
    assert measure(MEASURED) == ("not run", None)


def test_the_three_parts_of_the_data_do_not_overlap() -> None:
    split = shared_out("digits", None)
    own = load("digits", "train").x[: split.victim]
    assert split.victim + len(split.attacker) == len(load("digits", "train"))
    assert not (own[:, None] == split.attacker.x[None]).flatten(2).all(2).any()


def test_a_rehearsal_writes_table_and_figure_and_goes_on_from_its_cells(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(_learning, "QUERIES", (1, 20))
    panels = [Panel("mnist", "linear", "linear"), Panel("cifar10", "vgg11", "vgg11", most=GPU_ONLY)]
    claims = [Claim("digits linear", "one query is enough", accuracy_at(GRADIENTS, 1))]
    found = study(tmp_path).run(panels, claims)
    assert len(found["cells"]) == 4 * 2 * 2
    assert found["table"][0]["measured"].endswith("%)")
    cell = found["cells"][f"digits linear | {SMOOTHGRAD} | 20 | seed 1"]
    assert (cell["queries"], cell["explanations"], cell["work"]) == (20, 20, 200)
    assert (tmp_path / "milli-test.png").stat().st_size > 1000

    written = json.loads((tmp_path / "milli-test.json").read_text())
    written["cells"][f"digits linear | {GRADIENTS} | 1 | seed 0"]["accuracy"] = 0.123
    del written["cells"][f"digits linear | {GRADIENTS} | 1 | seed 1"]
    (tmp_path / "milli-test.json").write_text(json.dumps(written))
    again = study(tmp_path).run(panels, claims)
    assert again["cells"][f"digits linear | {GRADIENTS} | 1 | seed 0"]["accuracy"] == 0.123
    assert again["cells"][f"digits linear | {GRADIENTS} | 1 | seed 1"] | {"seconds": 0} == (
        found["cells"][f"digits linear | {GRADIENTS} | 1 | seed 1"] | {"seconds": 0}
    )


def test_cells_beyond_a_cpu_or_the_data_are_named_not_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(_learning, "QUERIES", (1,))
    panel = Panel("digits", "linear", "linear", most={GRADIENTS: 0, SMOOTHGRAD: 0, SMOOTHGRAD_1000: 0})
    monkeypatch.setattr(_learning, "RECIPES", {"linear": {MEMBERSHIP: Recipe(steps=1)}})
    found = study(tmp_path, quick=False).run([panel], [])
    assert found["not_run"] == [f"digits linear: {arm} at 1" for arm in (GRADIENTS, SMOOTHGRAD, SMOOTHGRAD_1000)]


def test_noise_leaves_the_map_of_a_linear_model_alone_and_blurs_that_of_a_bent_one() -> None:
    torch.manual_seed(0)
    x = torch.rand(3, 1, 6, 6)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    bent = nn.Sequential(nn.Flatten(), nn.Linear(36, 50), nn.ReLU(), nn.Linear(50, 4))
    for network, same in ((linear, True), (bent, False)):
        victim = lm.load_victim(network, input_shape=(1, 6, 6), low=0.0, high=1.0)
        maps = smoothgrad_maps.saliency_maps(victim, x, 0.3, samples=20, seed=0)
        assert torch.allclose(maps["raw"], maps["10σ"], atol=1e-6) == same


def test_maps_of_a_given_model_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "def net():\n"
        "    made = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
        "    made.input_shape, made.low, made.high = (1, 8, 8), 0.0, 1.0\n"
        "    return made\n"
    )
    found = smoothgrad_maps.main(StudyOptions(tmp_path / "out", quick=True, victim=f"{tmp_path}/net.py:net"))
    assert found["cosine_to_the_raw_gradient"]["1000σ"] == pytest.approx(1, abs=1e-4)
    assert (tmp_path / "out" / "smoothgrad-maps.png").stat().st_size > 1000


def test_one_change_at_a_time_is_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = {name: gaussian.SETTINGS[name] for name in ("as in milli-fig4", "queries as standardised pixels")}
    monkeypatch.setattr(gaussian, "SETTINGS", {name: replace(each, **SMALL) for name, each in tried.items()})
    found = gaussian.main(StudyOptions(tmp_path, seeds=1, quick=True))
    assert set(found["table"]) == set(tried)
    assert all(0 <= row["mean"] <= 1 for row in found["table"].values())


def test_standardised_queries_have_the_mean_and_the_spread_of_the_pixels() -> None:
    queries = gaussian._noise(gaussian.SETTINGS["queries as standardised pixels"], (1, 100, 100), 0)
    assert queries.mean().item() == pytest.approx(gaussian.MEAN, abs=0.01)
    assert queries.std().item() == pytest.approx(gaussian.SPREAD, abs=0.01)
