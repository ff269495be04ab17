"""The papers' tables and figures, and our own: each study is one command that writes its numbers and its picture.

A study is a function `main(settings)` that writes `<name>.json`, with its command inside, and its figures into
`settings.out`, and returns what the JSON holds. What is already in the JSON is not computed again, so a study killed
half-way goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leakmeter.registry import Registry
from leakmeter.studies.settings import Settings

Study = Callable[[Settings], dict[str, Any]]

STUDIES: Registry[Study] = Registry(
    "study",
    {
        "surrogate-mnist": "leakmeter.studies.surrogate_mnist:main",
        "dfme-table4": "leakmeter.studies.dfme_table4:main",
        "dfme-logits": "leakmeter.studies.dfme_logits:main",
        "dfme-gradients": "leakmeter.studies.dfme_gradients:main",
        "codfe-fig2": "leakmeter.studies.codfe_fig2:main",
        "codfe-table1": "leakmeter.studies.codfe_table1:main",
        "codfe-table2": "leakmeter.studies.codfe_table2:main",
        "codfe-table3": "leakmeter.studies.codfe_table3:main",
        "procedural": "leakmeter.studies.procedural:main",
        "procedural-generator": "leakmeter.studies.procedural_generator:main",
        "milli-fig2": "leakmeter.studies.milli_fig2:main",
        "milli-fig3": "leakmeter.studies.milli_fig3:main",
        "milli-fig4": "leakmeter.studies.milli_fig4:main",
        "smoothgrad-maps": "leakmeter.studies.smoothgrad_maps:main",
        "exact-queries": "leakmeter.studies.exact_queries:main",
        "exact-depth": "leakmeter.studies.exact_depth:main",
        "stn-fig1": "leakmeter.studies.stn_fig1:main",
        "stn-table1": "leakmeter.studies.stn_table1:main",
        "stn-fig2": "leakmeter.studies.stn_fig2:main",
        "stn-fig3": "leakmeter.studies.stn_fig3:main",
        "stn-fig4": "leakmeter.studies.stn_fig4:main",
        "stn-boundary": "leakmeter.studies.stn_boundary:main",
        "stn-cifar10": "leakmeter.studies.stn_cifar10:main",
        "stn-soundness": "leakmeter.studies.stn_soundness:main",
    },
)
