"""Figures of docs/datafree.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.docs.readers import Figure, Read, at, copied, final, pooled, procedural_row, shares

from leakmeter.studies import ROWS

PAGE, PROCEDURAL, CODFE = "docs/datafree.md", "procedural/procedural.json", "codfe-fig2/codfe-fig2.json"
SEED, LATER = 810, 500  # of ResNet-20: without data, and by surprise
TABLE4 = "dfme-table4/dfme-table4.json"


def _both(first: Read, second: Read) -> Read:
    return lambda found: (*first(found), *second(found))


def _one(read: Read) -> Read:
    return lambda found: read(found)[:1]


def _collapsed(found: dict[str, Any]) -> tuple[Any, ...]:
    """The seed of DFME on Fashion-MNIST that collapsed by the rule of its day, and what it ended with."""
    cell = found["cells"]["fashion-mnist/dfme-100k/seed0"]
    assert cell["notes"]["collapsed"]
    return cell["notes"]["answers"][-1]["class_entropy"], cell["curve"][-1]["accuracy_over_victim"]


def _settled(found: dict[str, Any]) -> tuple[str, ...]:
    """Table 3 on MNIST, from the copies of figure 2: queries, accuracy there, the paper's count and accuracy."""
    told = [row for row in ROWS["codfe-table3"](found) if row.what.startswith("codfe, mnist")]
    here, papers = zip(*(re.findall(r"[\d.]+%", row.budget) for row in told), strict=True)
    return *(row.ours.split()[0] for row in told), *here, *(row.paper for row in told), *papers


def _dast(found: dict[str, Any]) -> tuple[Any, ...]:
    """DaST at length: queries, the accuracy by both views at the end, and at the best moment."""
    curves = [found["cells"][f"{view}/seed0"]["curve"] for view in ("probs", "labels")]
    best = [max(point["accuracy"] for point in curve) for curve in curves]
    return curves[0][-1]["queries"], *(curve[-1]["accuracy"] for curve in curves), *best


def _thieves(victim: str, names: tuple[str, ...]) -> Read:
    """Of one victim of the zoo: seeds, the attack, and the best of each group of others."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        (row,) = (row for row in found["summary"] if row["victim"] == victim)
        best = [max(value for key, value in row.items() if key.startswith(name)) for name in names]
        return row["seeds"], row["auto"], *best

    return read


def _bench(name: str) -> Any:
    return json.loads((Path(__file__).parents[3] / "results" / "bench" / f"{name}.json").read_text())


def _zoo(name: str, groups: tuple[str, ...], later: str | None = None) -> list[Figure]:
    """Every row that was measured and not again `later`, with the best of each group of others."""
    file = f"bench/{name}.json"
    again = [] if later is None else [row["victim"] for row in _bench(later)["summary"]]
    figures: list[Figure] = []
    for row in _bench(name)["summary"]:
        if row["victim"] in again:
            continue
        there = tuple(name for name in groups if any(key.startswith(name) for key in row))
        places = " | ".join("{:.3f}" if name in there else "–" for name in groups)
        text = f"| {row['victim']} | {{}} | {{:.3f}} | {places} |"
        figures.append((PAGE, text, file, _thieves(row["victim"], there)))
    return figures


def _resnet(view: str) -> Read:
    """Of ResNet-20: the attack, and the plain one on its answers."""

    def read(found: dict[str, Any]) -> tuple[Any, ...]:
        cell = found["cells"][f"CIFAR-10 ResNet-20, {view}/50"]
        return cell["auto"], cell["plain distillation"]

    return read


def _pooled_thieves(found: dict[str, Any]) -> tuple[Any, ...]:
    """Of ResNet-20 with a pool: the attack, the plain one on its answers, the better of ART's two."""
    (cell,) = found["cells"].values()
    art = max(cell["ART KnockoffNets"], cell["ART CopycatCNN"])
    return cell["auto"], cell["plain distillation"], art


def _unsure(found: dict[str, Any]) -> tuple[Any, ...]:
    """Of a network that is never sure: the attack, the plain network, the better of ART's two."""
    (row,) = found["summary"]
    return row["auto"], row["plain network"], max(row["ART KnockoffNets"], row["ART CopycatCNN"])


def _effort_one(found: dict[str, Any]) -> tuple[Any, ...]:
    """The share of the victim's accuracy with all the effort: MNIST's LeNet, then Fashion-MNIST's."""
    rows = {row["victim"]: row[SHARE] for row in found["summary"]}
    fashion = (f"Fashion-MNIST LeNet, many queries, 20,000 {view}" for view in ("probs", "labels"))
    return *_lenet(found), *(rows[each] for each in fashion)


def _lenet(found: dict[str, Any]) -> tuple[Any, ...]:
    """Of the victim's accuracy the share that copies of MNIST's LeNet have."""
    rows = {row["victim"]: row.get(SHARE) for row in found["summary"]}
    asked = (", few queries, 500 probs", ", 2,000 probs", ", many queries, 5,000 labels")
    return tuple(rows[f"MNIST LeNet{each}"] for each in asked)


RESNET = (("probabilities", "CIFAR-100 pool, 5,000 probs"), ("labels", "CIFAR-100 pool, 5,000 labels"))
RESNET_NOW = (
    (
        "by probabilities `auto` {:.3f}, the plain one {:.3f}",
        "thieves-cifar100",
        "CIFAR-10 ResNet-20, CIFAR-100 pool, 5,000 probs",
    ),
    (
        "by labels `auto` {:.3f}, the plain one {:.3f}",
        "thieves-cifar100",
        "CIFAR-10 ResNet-20, CIFAR-100 pool, 5,000 labels",
    ),
    (
        "`auto` {:.3f}, the plain one on its answers {:.3f};",
        "thieves-many",
        "CIFAR-10 ResNet-20, many queries, 50,000 probs",
    ),
)
"""The latest measurements of the stranger's ResNet-20."""
SHARE = "accuracy, as a share of the victim's"
OTHERS = ("logistic regression", "plain trees", "plain network", "ART ")
_SEEDS = "({:.3f}, {:.3f}, {:.3f})"
WITHOUT_DATA: list[Figure] = [
    *_zoo("thieves", OTHERS, later="thieves-tables"),
    *_zoo("thieves-tables", OTHERS),
    (
        PAGE,
        "{:.3f} of the victim's accuracy from 500 probabilities, {:.3f} from 2,000, and {:.3f} from 5,000 labels; of "
        "Fashion-MNIST's LeNet {:.3f} from 20,000 probabilities and {:.3f} from as many labels",
        "bench/thieves-effort-one.json",
        _effort_one,
    ),
    (
        PAGE,
        "20,000 probabilities gave {:.3f}, seven minutes",
        "bench/thieves-small-batches.json",
        at(f"cells/Fashion-MNIST LeNet, many queries, 20,000 probs\0990/{SHARE}"),
    ),
    (
        PAGE,
        "Labels learned so gave {:.3f} on that seed",
        "bench/thieves-small-batches.json",
        at(f"cells/Fashion-MNIST LeNet, many queries, 20,000 labels\0990/{SHARE}"),
    ),
    *_zoo("thieves-pictures", ("logistic regression", "plain network", "plain dense network")),
    *(
        (
            PAGE,
            text,
            f"bench/{file}.json",
            at(
                *(f"cells/{cell}\0{951 if 'many' in cell else LATER}/{name}" for name in ("auto", "plain distillation"))
            ),
        )
        for text, file, cell in RESNET_NOW
    ),
    (
        PAGE,
        "read {:.3f} on two other seeds, a plain network {:.3f}, ART's better {:.3f}",
        "bench/thieves-unsure.json",
        _unsure,
    ),
    (
        PAGE,
        "LeNet have {:.3f} from 500 probabilities, {:.3f} from 2,000, and {:.3f} from 5,000 labels",
        "bench/thieves-pictures.json",
        _lenet,
    ),
    *(
        (
            PAGE,
            f"by {named} `auto` {{:.4f}} and the plain one {{:.4f}}",
            "bench/thieves-resnet20.json",
            _resnet(view),
        )
        for named, view in RESNET
    ),
    (
        PAGE,
        "`auto` {:.4f}, the plain one on its answers {:.4f}.",
        "bench/thieves-cifar-now.json",
        at(*(f"cells/CIFAR-10 ResNet-20, 5,000 probs\0{SEED}/{name}" for name in ("auto", "plain distillation"))),
    ),
    (
        PAGE,
        "`auto` {:.4f}, a plain one (`bench/_plain.py`) on the same answers {:.4f}, the better of ART's two {:.3f}.",
        "bench/thieves-pool.json",
        _pooled_thieves,
    ),
    (
        PAGE,
        "(`results/few-answers/`): {:.3f} of the victim's accuracy, fidelity {:.3f}",
        "few-answers/few-answers.json",
        at("summary/accuracy_over_victim/mean", "summary/fidelity/mean"),
    ),
    (
        PAGE,
        "Seven seeds lie between {:.3f} and {:.3f}; seed 36 has {:.3f}",
        "few-answers/few-answers.json",
        at("cells/seed37/fidelity", "cells/seed34/fidelity", "cells/seed36/fidelity"),
    ),
    (
        PAGE,
        f"**{{:.3f}}** from 500 {_SEEDS}; **{{:.3f}}** from 2,000 {_SEEDS} |",
        PROCEDURAL,
        _both(shares("mnist", "procedural-probs", 500), shares("mnist", "procedural-probs", 2000)),
    ),
    (
        PAGE,
        f"| **{{:.3f}}** from 5,000 {_SEEDS}; **{{:.3f}}** from 20,000 {_SEEDS} |",
        PROCEDURAL,
        _both(shares("fashion-mnist", "procedural-probs", 5000), shares("fashion-mnist", "procedural-probs", 20_000)),
    ),
    (
        PAGE,
        f"(three convolutions) | **{{:.3f}}** from 5,000 {_SEEDS} | **{{:.3f}}** from 20,000 {_SEEDS} |",
        PROCEDURAL,
        _both(
            shares("mnist", "procedural-other-student", 5000),
            shares("fashion-mnist", "procedural-other-student", 20_000),
        ),
    ),
    (
        PAGE,
        f"`procedural`, labels | **{{:.3f}}** from 5,000 {_SEEDS}; **{{:.3f}}** from 20,000 {_SEEDS} | **{{:.3f}}** "
        f"from 20,000 {_SEEDS} |",
        PROCEDURAL,
        _both(
            _both(shares("mnist", "procedural-labels", 5000), shares("mnist", "procedural-labels", 20_000)),
            shares("fashion-mnist", "procedural-labels", 20_000),
        ),
    ),
    (
        PAGE,
        f"100,000 | **{{:.3f}}** {_SEEDS}; **{{:.3f}}** from a million {_SEEDS} | **{{:.3f}}** {_SEEDS} |",
        PROCEDURAL,
        _both(
            _both(shares("mnist", "dfme-100k", 100_000), shares("mnist", "dfme-1m", 1_000_000)),
            shares("fashion-mnist", "dfme-100k", 100_000),
        ),
    ),
    (
        PAGE,
        "own kind* | {:.3f} from 2,000 | {:.3f} from 20,000 |",
        PROCEDURAL,
        _both(_one(shares("mnist", "own-data", 2000)), _one(shares("fashion-mnist", "own-data", 20_000))),
    ),
    (
        PAGE,
        "(each other's) | {:.3f} from 2,000 | {:.2f} from 20,000 |",
        PROCEDURAL,
        _both(_one(shares("mnist", "unrelated-data", 2000)), _one(shares("fashion-mnist", "unrelated-data", 20_000))),
    ),
    (
        PAGE,
        "`codfe`, probabilities / labels, 100,000 | {:.3f}* / {:.3f}* |",
        CODFE,
        _both(final("mnist", "probs", "codfe"), final("mnist", "labels", "codfe")),
    ),
    (
        PAGE,
        "* | {:.3f} / {:.3f} |",
        CODFE,
        _both(final("fashion-mnist", "probs", "codfe"), final("fashion-mnist", "labels", "codfe")),
    ),
    (
        PAGE,
        "as published, probabilities / labels, 100,000 | {:.2f}* / {:.2f}, collapsed | {:.2f} / {:.2f}, collapsed |",
        CODFE,
        _both(
            _both(final("mnist", "probs", "codfe-literal"), final("mnist", "labels", "codfe-literal")),
            _both(final("fashion-mnist", "probs", "codfe-literal"), final("fashion-mnist", "labels", "codfe-literal")),
        ),
    ),
    (
        PAGE,
        "`dast`, probabilities / labels, 100,000 | {:.2f} / {:.2f} | {:.2f} / {:.2f} |",
        CODFE,
        _both(
            _both(final("mnist", "probs", "dast"), final("mnist", "labels", "dast")),
            _both(final("fashion-mnist", "probs", "dast"), final("fashion-mnist", "labels", "dast")),
        ),
    ),
    (
        PAGE,
        "{:,} queries in batches of 100, as many steps as two million would buy it. The copy ends at {:.1%} accuracy "
        "by probabilities and {:.1%} by labels; its best moment, chosen on test data as its authors do, has {:.1%} and "
        "{:.1%},",
        "codfe-dast/codfe-dast.json",
        _dast,
    ),
    (
        PAGE,
        "on Fashion-MNIST 20,000 are {:.3f} behind",
        PROCEDURAL,
        lambda found: (
            procedural_row(found, "fashion-mnist", "own-data", 20_000)["accuracy_over_victim"]["mean"]
            - procedural_row(found, "fashion-mnist", "procedural-probs", 20_000)["accuracy_over_victim"]["mean"],
        ),
    ),
    (
        PAGE,
        "small convolutional victim of {:.1f} %, one seed",
        PROCEDURAL,
        at("cells/cifar10\x00procedural-probs\x00seed0/curve/0/victim_accuracy", times=100),
    ),
    (
        PAGE,
        "`procedural` reaches {:.3f} (fidelity {:.3f}) from 50,000",
        PROCEDURAL,
        copied("cifar10", "procedural-probs", 50_000),
    ),
    (
        PAGE,
        "settings {:.3f} (27 turns; its answers have {:.2f} of the highest class entropy)",
        PROCEDURAL,
        lambda found: (
            copied("cifar10", "dfme-50k", 50_000)(found)[0],
            found["cells"]["cifar10/dfme-50k/seed0"]["notes"]["answers"][-1]["class_entropy"],
        ),
    ),
    (PAGE, "own 20,000 images {:.3f}, and", PROCEDURAL, _one(copied("cifar10", "own-data", 20_000))),
    (PAGE, "house numbers (SVHN) {:.3f}.", PROCEDURAL, _one(copied("cifar10", "unrelated-data", 8000))),
    (
        PAGE,
        "no query of its own: {:.3f} against {:.3f} all drawn (MNIST, 2,000 queries), {:.3f} against {:.3f} "
        "(Fashion-MNIST, 20,000",
        "procedural-generator/procedural-generator.json",
        at(
            *(
                f"cells/{data}\x00seed0/{arm}/accuracy_over_victim"
                for data in ("mnist", "fashion-mnist")
                for arm in ("generated", "drawn")
            )
        ),
    ),
    (
        PAGE,
        "{:.0f} % of the highest class entropy at the end of seed 0 on Fashion-MNIST, which had collapsed by the rule "
        "of that day (half); it stands in the mean with {:.3f}",
        PROCEDURAL,
        lambda found: (100 * _collapsed(found)[0], _collapsed(found)[1]),
    ),
    (
        PAGE,
        "is {:.0f} %, {:.0f} % and {:.0f} % of their size",
        "dfme-logits/dfme-logits.json",
        at(
            *(
                f"cells/{victim}\x00seed0/abs_mean_over_size"
                for victim in ("mnist\x00lenet", "fashion-mnist\x00lenet", "cifar10\x00small-conv")
            ),
            times=100,
        ),
    ),
    (
        PAGE,
        "once the student agrees with the victim on {:.1f} % of the images, the input gradient of KL is {:.0f} times",
        "dfme-gradients/dfme-gradients.json",
        lambda found: (
            100 * found["cells"]["seed0"][-1]["agreement"],
            found["cells"]["seed0"][-1]["gradient_l1"] / found["cells"]["seed0"][-1]["gradient_kl"],
        ),
    ),
    (
        PAGE,
        "{:.1f} times as fast at the published setting, {:.1f} times at the LeNet setting",
        "bench/dfme.json",
        at("settings/published/ratio", "settings/lenet/ratio"),
    ),
    (
        PAGE,
        "measures {:,.0f} (dead leaves) to {:,.0f} pictures of 28×28 a second on two cores, and strokes {:.0f} times",
        "bench/makers.json",
        lambda found: (
            round(min(each["two_cores"] for each in _drawn(found)), -3),
            round(max(each["two_cores"] for each in _drawn(found)), -4),
            found["ratio_of_strokes"],
        ),
    ),
    (
        PAGE,
        "settles at {} (probabilities) and {} (labels) on MNIST, the median of three seeds, with {} and {} there; the "
        "paper's counts to its highest test accuracy are {} and {}, of copies of {} and {}",
        CODFE,
        _settled,
    ),
    (
        PAGE,
        "| CIFAR-10 ({:.1f} %) |",
        TABLE4,
        at("cells/cifar10\x00cifar10\x00tau1\x00cyclic\x00seed0/curve/0/victim_accuracy", times=100),
    ),
    (
        PAGE,
        "| SVHN ({:.1f} %) |",
        TABLE4,
        at("cells/svhn\x00svhn\x00tau1\x00cyclic\x00seed0/curve/0/victim_accuracy", times=100),
    ),
    *(
        (PAGE, f"| {name} | {count} | {{:.3f}} |" + (" {:.3f} |" if paper else " |"), TABLE4, pooled(victim, pool))
        for victim, pool, name, count, paper in (
            ("cifar10", "cifar10", "its own images", "20,000", True),
            ("cifar10", "cifar100", "CIFAR-100", "5,000", True),
            ("cifar10", "svhn", "SVHN", "8,000", True),
            ("cifar10", "mnist", "MNIST", "50,000", True),
            ("cifar10", "random", "Gaussian noise", "50,000", False),
            ("svhn", "svhn", "its own images", "8,000", True),
            ("svhn", "svhn-skew", "its first five classes", "5,013", True),
            ("svhn", "cifar10", "CIFAR-10", "20,000", True),
            ("svhn", "mnist", "MNIST", "50,000", True),
            ("svhn", "random", "Gaussian noise", "50,000", True),
        )
    ),
    (
        PAGE,
        "first five classes: {:.3f} at τ = 1, {:.3f} at τ = 10",
        TABLE4,
        lambda found: next(
            (row["settings"]["tau1/cyclic"]["mean"], row["settings"]["tau10/cyclic"]["mean"])
            for row in found["summary"]
            if (row["victim"], row["pool"]) == ("svhn", "svhn-skew")
        ),
    ),
]


def _drawn(found: dict[str, Any]) -> list[dict[str, float]]:
    """What the makers of leakmeter draw, the old way left out."""
    return [each for name, each in found["images_per_second"]["1x28x28"].items() if "distance" not in name]
