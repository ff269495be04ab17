"""Figures of docs/explanations.md."""

from __future__ import annotations

import re

from tests.docs.readers import Figure, at, factor, learned, one_at_a_time, ten_are_worth

from leakmeter.studies import ROWS
from leakmeter.studies.ours._shown import page

PAGE = "docs/explanations.md"
_CONV, _MLP, _LINEAR = "mnist milli-conv", "mnist mlp", "mnist linear"
_GRADIENTS, _SMOOTH, _PLAIN = "membership + gradient", "membership + SmoothGrad", "membership"
FIG2, FIG3, FIG4 = (f"milli-fig{n}/milli-fig{n}.json" for n in (2, 3, 4))
_ARMS = ("no counterfactuals", "labels", "clamping", "boundary")
STUDY, NOISE = "explanations/explanations.json", "milli-noise/milli-noise.json"


EXPLAINED: list[Figure] = [
    (PAGE, "{}", STUDY, lambda found: (" ".join(page(found).split()),)),
    *(
        (PAGE, f"| {told} | {{:.1f}} % |", "bench/few-gradients.json", at(f"rows/{row}/fidelity/0", times=100))
        for told, row in (
            ("gradient | ten pictures", "narrow"),
            ("gradient | ten pictures", "wide"),
            ("SmoothGrad | ten pictures", "wide, SmoothGrad"),
            ("gradient | ten that code drew", "wide, drawn pictures"),
            ("gradient | ten of noise, which an audit asked before", "wide, noise"),
        )
    ),
    (
        PAGE,
        "`gradcam` {:.1f} times as long, `gradxinput` {:.0f}, `gradient` {:.0f}, `reasons:4` {:.0f}, "
        "`occlusion` {:.0f}, `lime:200` {:.0f}, `counterfactual` {:.0f}, `smoothgrad:10` {:.0f}, `shap:5` {:.0f}, "
        "`integrated:20` {:.0f}",
        "bench/explanations.json",
        lambda found: tuple(sorted(row["times_plain"] for row in found["rows"].values())),
    ),
    (
        PAGE,
        "at most {:.2f} times the queries of `gradient`, `integrated:10` at most {:.2f} times; all of them exact, "
        "the largest error of an output {:.1e}",
        "bench/exact-explained.json",
        lambda found: (
            *at("worst/gradxinput", "worst/integrated:10")(found),
            max(row["certificate"]["max_error"] for row in found["rows"] if row["certificate"]["exact"]),
        ),
    ),
    *(
        (
            PAGE,
            f"| {table} | " + " | ".join(["{:.3f}"] * 4) + " |",
            "counterfactuals/counterfactuals.json",
            at(*(f"table/{table}/{arm}/mean" for arm in _ARMS)),
        )
        for table in ("adult", "compas")
    ),
    *(
        (
            PAGE,
            f"| {name} | " + " | ".join(["{:.1f} %"] * len(queries)) + " |" * (6 - len(queries)),
            FIG2,
            learned(panel, arm, *queries),
        )
        for name, panel, arm, queries in (
            ("convolutional, with gradients", _CONV, _GRADIENTS, (1, 10, 100)),
            ("convolutional, with SmoothGrad", _CONV, _SMOOTH, (1, 10)),
            ("convolutional, probabilities only", _CONV, _PLAIN, (1, 10, 100, 1000)),
            ("two layers, with gradients", _MLP, _GRADIENTS, (1, 10, 100, 1000)),
            ("two layers, with SmoothGrad", _MLP, _SMOOTH, (1, 10, 100)),
            ("two layers, probabilities only", _MLP, _PLAIN, (1, 10, 100, 1000, 10_000)),
            ("linear, with gradients", _LINEAR, _GRADIENTS, (1, 10, 100)),
            ("linear, probabilities only", _LINEAR, _PLAIN, (1, 10, 100, 1000, 10_000)),
        )
    ),
    (
        PAGE,
        "{:.1f} % from ten Gaussian queries with gradients, where the paper has 84 %",
        FIG4,
        learned("mnist milli-conv, gaussian queries", _GRADIENTS, 10),
    ),
    (
        PAGE,
        "a cosine of {:.2f} to the raw gradient at 0.3 of the data's spread, {:.2f} at 1000 times it",
        "smoothgrad-maps/smoothgrad-maps.json",
        at("cosine_to_the_raw_gradient/0.3σ", "cosine_to_the_raw_gradient/1000σ"),
    ),
    (
        PAGE,
        "raw gradients give {:.1f} % from ten queries and {:.1f} % from a hundred",
        NOISE,
        learned(_MLP, _GRADIENTS, 10, 100),
    ),
    (
        PAGE,
        "appendix D's noise {:.1f} % and {:.1f} %.",
        NOISE,
        learned(_MLP, f"{_SMOOTH} at 1000 σ_D", 10, 100),
    ),
    *(
        (PAGE, "between {:.2f} and {:.3g} times (" + name, FIG2, factor(panel))
        for name, panel in (("convolutional, at {:.1f} %)", _CONV), ("two layers, at {:.1f} %)", _MLP))
    ),
    (
        PAGE,
        "ten gradients do what {:.1f} to {:.0f} times as many probabilities do",
        FIG2,
        lambda found: ten_are_worth(found, _CONV, _MLP),
    ),
    (
        PAGE,
        "The victims reach {:.1f} %, {:.1f} % and {:.1f} %;",
        FIG2,
        at(
            *(f"cells/{panel} | membership | 1 | seed 0/victim_accuracy" for panel in (_CONV, _MLP, _LINEAR)), times=100
        ),
    ),
    (
        PAGE,
        "{}× at 1,000 queries",
        FIG3,
        lambda found: (f"{float(found['table'][1]['measured'].split('; ')[-1].split('×')[0]):.2f}",),
    ),
    (
        PAGE,
        "by the points about it, {} to {} times",
        FIG3,
        lambda found: re.findall(r"([\d.]+) to ([\d.]+)× at 1,000", ROWS["milli-fig3"](found)[1].ours)[0],
    ),
    (PAGE, "changes one of these at a time: {}. **None", "milli-gaussian/milli-gaussian.json", one_at_a_time),
]
