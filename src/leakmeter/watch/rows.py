"""The rows of a few clients in memory: queries as the model takes them, and answers as they were shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakmeter.extraction.given import Given
from leakmeter.oracle.answer import Answer
from leakmeter.oracle.view import View
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.state import State

_DECIMALS = 7  # the most at which probabilities are taken for rounded: float32 cannot tell more apart
_FLOAT = 2.0**-24  # how far, as a share of it, float32 may be from a number


@dataclass(frozen=True, eq=False)
class Rows:
    """What one client, or several, asked and got, in the order of time."""

    given: Given
    times: Tensor
    digests: NDArray[np.uint64]
    lost: int = 0
    """Rows whose array file is not there, is no such array, or lies outside the log's folder."""

    def __len__(self) -> int:
        return len(self.given.x)

    def digest(self, n: int) -> str:
        """Of the first `n` rows."""
        return f"{int(np.bitwise_xor.reduce(self.digests[:n], initial=np.uint64(0))):016x}-{min(n, len(self))}"

    def first(self, n: int) -> Given:
        """The first `n` queries with their answers."""
        return self.given.first(n)


def rows_of(
    state: State,
    clients: list[str],
    spec: VictimSpec,
    folder: Path,
    most: int,
    sample: bool = False,
    share: int = 1,
) -> Rows:
    """Reads different queries of these clients.

    Args:
        state: where they are.
        clients: their names.
        spec: of the victim.
        folder: the log's; array files are read from inside it only.
        most: the most rows; the earliest, or with `sample` a fixed choice from all.
        sample: whether rows are drawn, not taken from the start.
        share: one in so many different queries is looked at; where clients have very many, that is enough.
    """
    order = "digest" if sample else "t, digest"
    found = state.connection.execute(
        "WITH chosen AS (SELECT arg_min(rowid, digest) AS place, min(t) AS t, min(digest) AS digest FROM queries "
        f"WHERE client IN (SELECT unnest(?)) AND asked % {share} = 0 GROUP BY asked ORDER BY {order} LIMIT ?) "
        'SELECT q."values" AS v, q.path AS p, chosen.t AS t, q.label AS label, q.probs AS probs, q.digest AS digest '
        "FROM queries q JOIN chosen ON q.rowid = chosen.place",
        [clients, most],
    ).fetchnumpy()
    moments = np.asarray(found["t"], dtype=np.float64)
    turn = np.lexsort((np.asarray(found["digest"]), moments))
    parts = {name: np.asarray(column, dtype=object)[turn] for name, column in found.items() if name != "t"}
    x, good = _inputs(parts, spec, folder)
    answer = _answer(np.asarray(parts["label"][good], dtype=np.int64), parts["probs"][good], spec)
    shown = answer.columns["kept"] if "kept" in answer.columns else torch.arange(int(good.sum()))
    columns = {name: column for name, column in answer.columns.items() if name != "kept"}
    digests = np.asarray(parts["digest"][good], dtype=np.uint64)[shown.numpy()]
    given = Given(x[shown], replace(answer, columns=columns))
    return Rows(given, torch.from_numpy(moments[turn][good])[shown], digests, int((~good).sum()))


def _inputs(parts: dict[str, NDArray[Any]], spec: VictimSpec, folder: Path) -> tuple[Tensor, NDArray[np.bool_]]:
    n = len(parts["v"])
    x, good = np.zeros((n, spec.features), dtype=np.float32), np.ones(n, dtype=bool)
    for place, (values, path) in enumerate(zip(parts["v"], parts["p"], strict=True)):
        row = _array(str(path), folder, spec.features) if _none(values) else np.asarray(values, dtype=np.float32)
        good[place] = row is not None
        if row is not None:
            x[place] = row
    return torch.from_numpy(x[good]).reshape(-1, *spec.input_shape).to(spec.dtype), good


def _none(value: Any) -> bool:
    return value is None or value is np.ma.masked or (isinstance(value, float) and np.isnan(value))


def _array(path: str, folder: Path, features: int) -> NDArray[np.float32] | None:
    """One query from an array file inside the folder; None: there is no such query."""
    name, _, row = path.partition("#")
    try:
        place = (folder / name).resolve()
        if not place.is_relative_to(folder.resolve()):
            return None
        array = np.load(place, mmap_mode="r", allow_pickle=False)
        one = np.asarray(array[int(row)] if row else array)
    except (OSError, ValueError, IndexError, EOFError):
        return None
    if one.dtype.kind not in "fiub" or one.size != features:
        return None
    flat = one.astype(np.float32).reshape(-1)
    return flat if bool(np.isfinite(flat).all()) else None


def _answer(labels: NDArray[np.int64], probs: NDArray[Any], spec: VictimSpec) -> Answer:
    """The probabilities where most answers have them, and those rows only; else the labels of all."""
    have = np.array([not _none(each) for each in probs], dtype=bool)
    if not len(have) or have.mean() < 0.5:
        return Answer(View("labels"), spec.classes, {"labels": torch.from_numpy(labels)})
    shown = torch.from_numpy(np.stack([np.asarray(each, dtype=np.float32) for each in probs[have]]))
    kept = {} if have.all() else {"kept": torch.from_numpy(np.flatnonzero(have))}
    if spec.classes == 1:
        return Answer(View("logits"), 1, {"logits": shown} | kept)
    view, columns = _seen(shown)
    return Answer(view, spec.classes, columns | kept)


def _seen(probs: Tensor) -> tuple[View, dict[str, Tensor]]:
    """What the API lets through, by what it showed: so many decimals, the same number of classes every time, or all."""
    decimals, most = _decimals(probs), (probs > 0).sum(1)
    few = int(most[0])
    if decimals is None and 0 < few < probs.shape[1] and bool((most == few).all()):
        values, top = probs.topk(few, dim=1)
        return View("top", k=few), {"top": top, "values": values}
    return View("probs", decimals=decimals), {"probs": probs}


def _decimals(probs: Tensor) -> int | None:
    """How many decimals were shown, if they were cut: a shown zero is then no probability of zero."""
    exact = probs.double()
    for decimals in range(_DECIMALS + 1):
        if bool(((exact - torch.round(exact, decimals=decimals)).abs() <= _FLOAT * exact + 1e-12).all()):
            return decimals
    return None
