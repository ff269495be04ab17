"""The matrix of defenses: whose copy counts behind which."""

from typing import Any

import pytest

from leakmeter.studies.ours.defense_matrix import table


def cells(fidelity: dict[str, list[float]], seeds: int = 2) -> dict[str, Any]:
    """One victim: for each `defense/attacker` the fidelity of each seed."""
    made: dict[str, Any] = {}
    for key, rates in fidelity.items():
        text = key.rpartition("/")[0]
        for seed in range(seeds):
            made[f"digits/digits/{text}/honest/seed{seed}"] = {"accuracy_loss": 0.01, "distortion": 0.2}
            made[f"digits/digits/{key}/seed{seed}"] = {"fidelity": rates[seed], "kl": 0.5, "n": 100}
    return made


def test_labels_alone_count_behind_what_keeps_them_and_the_best_of_each_seed_is_taken() -> None:
    told = {
        "none/naive": [0.8, 0.9],
        "none/label-only": [0.7, 0.6],
        "mad-argmax:1/naive": [0.1, 0.2],
        "mad-argmax:1/knowing": [0.5, 0.65],
        "mad:1/naive": [0.1, 0.3],
        "mad:1/label-only": [0.2, 0.0],
    }
    rows = {row["defense"]: row for row in table(cells(told))}
    assert rows["mad-argmax:1"]["fidelity"]["label-only"]["values"] == [0.7, 0.6]
    assert rows["mad-argmax:1"]["best"]["mean"] == pytest.approx((0.7 + 0.65) / 2)
    assert rows["mad:1"]["fidelity"]["label-only"]["values"] == [0.2, 0.0]
    assert rows["mad:1"]["best"]["mean"] == pytest.approx(0.25)
    assert (rows["none"]["seeds"], rows["none"]["distortion"]) == (2, 0.2)


def test_a_run_that_was_stopped_in_the_middle_of_a_seed_counts_the_seeds_that_are_whole() -> None:
    """It goes on where it was, and its table is written on the way."""
    made = cells({"none/naive": [0.8, 0.9], "none/label-only": [0.7, 0.6], "top:1/naive": [0.5, 0.4]})
    for key in ("top:1/naive", "top:1/honest"):
        del made[f"digits/digits/{key}/seed1"]
    rows = {row["defense"]: row for row in table(made)}
    assert (rows["none"]["seeds"], rows["top:1"]["seeds"]) == (2, 1)
    assert rows["top:1"]["fidelity"]["label-only"]["values"] == [0.7]
    del made["digits/digits/none/label-only/seed1"]
    assert {row["defense"]: row["seeds"] for row in table(made)} == {"none": 1, "top:1": 1}
    begun = {key: cell for key, cell in made.items() if "top:1" not in key or "honest" in key}
    assert [row["defense"] for row in table(begun)] == ["none"]


def test_who_may_ask_more_queries_may_ask_fewer() -> None:
    told = {"none/naive": [0.8, 0.9], "none/label-only": [0.7, 0.6], "limit:500/naive": [0.85, 0.7]}
    rows = {row["defense"]: row for row in table(cells(told | {"limit:500/label-only": [0.1, 0.1]}))}
    assert rows["none"]["fidelity"]["naive"]["values"] == [0.8, 0.9]
    assert rows["none"]["best"]["mean"] == pytest.approx((0.85 + 0.9) / 2)
    assert rows["limit:500"]["best"]["mean"] == pytest.approx((0.85 + 0.7) / 2)
