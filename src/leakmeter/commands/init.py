"""`leakmeter init`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from leakmeter.commands.options import say
from leakmeter.errors import UsageError

TEMPLATE = """\
# An audit: leakmeter audit {name}
# Only audit models you own or are authorised to test.
name = "audit"
budget = 5000                     # most queries one attack may ask
seeds = [0, 1, 2]                 # more seeds, tighter intervals
views = ["probs", "labels"]       # labels, top:K, probs, probs:D, logits; each with +gradient or another explanation
# explanations = ["gradient", "shap", "reasons:4", "gradient/top:20"]   # what would showing each of them cost?
# stops = [500, 1000, 5000]       # where the curve has points
# defenses = ["none", "rounding:2", "noise:0.1", "reverse-sigmoid:0.7,0.2", "reverse-sigmoid:0.7,0.2/adaptive"]
# detectors = ["prada"]           # at which query would it have fired? [] to leave it out
# queries_per_day = 1000          # the rate limit in force, for the advice in the verdict

[victim]
source = "package.module:factory" # or file.py:factory, model.pt2, model.onnx, http://127.0.0.1:8000/v2/models/NAME
# input_shape = [1, 28, 28]       # what cannot be read off the model
# low = 0.0                       # the range of inputs; -inf and inf: unbounded
# high = 1.0
# classes = 10
# outputs = "logits"              # logits, probs or labels

# [victim.remote]                 # for a victim over HTTP
# authorized_by = "name, ticket"  # who allowed it; needed unless it is on this machine, and put in the report
# key_env = "SHOP_API_KEY"        # the environment variable that holds the key
# rps = 10                        # most requests a second
# concurrency = 4                 # most requests at once

[data]                            # test data, seen by the owner's scoring only
name = "digits"                   # a dataset, an .npz with x and y, a .csv or .parquet, or a folder of images
# limit = 2000

# [[attacks]]                     # none: the attacks that suit the victim
# name = "procedural"
#
# [[attacks]]
# name = "surrogate"
# pool = "gaussian"

# [prices]
# query = 0.001
# explanation = 0.002

# [certify]                       # for a model trained with Gaussian noise
# sigma = 0.5

# [policy]                        # exit code 3 when exceeded, 4 when undecided
# max_fidelity = {{queries = 5000, value = 0.85}}
# min_copy_cost = {{fidelity = 0.9, queries = 2000}}

# [honest]                        # the most that a recommended defense may cost honest users
# accuracy_loss = 0.005
# distortion = 0.1
"""


def init(
    path: Annotated[Path, typer.Argument(help="where to write the plan")] = Path("leakmeter.toml"),
    data: Annotated[Path | None, typer.Option("--data", help="a .csv or .parquet file: writes its [columns]")] = None,
    target: Annotated[str | None, typer.Option("--target-column", help="its column of classes")] = None,
) -> None:
    """Writes a commented plan to start from."""
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name")
    text = TEMPLATE.format(name=path)
    path.write_text(text if data is None else _with_table(text, data, target))
    say(f"{path}: edit it, then run: leakmeter audit {path}")


def _with_table(text: str, data: Path, target: str | None) -> str:
    """The plan for a table: its file, its target, and what its columns seem to hold."""
    from leakmeter.data.describe import describe
    from leakmeter.data.table import read

    section = describe(read(data), data, target).section()
    columns = "\n".join(f"{json.dumps(name)} = {_inline(settings)}" for name, settings in section.items())
    chosen = f'name = "{data}"' + (f'\ntarget = "{target}"' if target else '\n# target = "Class"     # classes, if any')
    text = text.replace(_DIGITS, chosen)
    return f"{text}\n[columns]                         # read off {data}: check ranges, levels and kinds\n{columns}\n"


_DIGITS = next(line for line in TEMPLATE.splitlines() if line.startswith('name = "digits"'))


def _inline(settings: dict[str, Any]) -> str:
    """One line of TOML; words, numbers and lists of them are written as in JSON."""
    return "{" + ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()) + "}"
