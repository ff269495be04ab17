"""From text to a checked row, in SQL: what does not fit the model is left out and counted, never guessed."""

from __future__ import annotations

import math

from leakmeter.data.columns import Column
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.source import Relation, quoted

_NAME = 200  # characters of a client's name; a longer one is cut, and told apart by its digest


def rows_sql(relation: Relation, spec: VictimSpec, split: bool) -> str:
    """The rows of a relation as they are stored; `ok` says whether a row can be used.

    Args:
        relation: what gives the columns client, time, input, answer, grp, net and honest.
        spec: what the model takes and gives.
        split: whether the input is a list of text, one a column of the table.
    """
    return f"""
    SELECT *, hash(client, t, asked, label, probs) AS digest,
           client IS NOT NULL AND t IS NOT NULL AND label IS NOT NULL AND asked IS NOT NULL AS ok
    FROM (SELECT client, grp, net, honest, t, values, path, probs,
                 CASE WHEN values IS NOT NULL THEN hash(values) WHEN path IS NOT NULL THEN hash(path) END AS asked,
                 {_label(spec)} AS label
          FROM (SELECT {_text("client")} AS client, {_text("CAST(grp AS VARCHAR)")} AS grp, {_network()} AS net,
                       coalesce(lower(CAST(honest AS VARCHAR)) IN ('true', 't', 'yes', '1'), false) AS honest,
                       {_time()} AS t, {_values(spec, split, "input" in relation.lists)} AS values,
                       {_path(split or "input" in relation.lists)} AS path,
                       {_probs(spec, "answer" in relation.lists)} AS probs, CAST(answer AS VARCHAR) AS answer
                FROM ({relation.sql})))"""


def _text(name: str) -> str:
    return (
        f"CASE WHEN length({name}) > {_NAME} THEN left({name}, 60) || '… ' || left(md5({name}), 12) "
        f"WHEN {name} <> '' THEN {name} END"
    )


def _time() -> str:
    """Seconds since 1970; numbers too large for seconds are milli-, micro- or nanoseconds."""
    number = "TRY_CAST(time AS DOUBLE)"
    scaled = (
        f"CASE WHEN NOT isfinite({number}) THEN NULL WHEN abs({number}) > 1e17 THEN {number} / 1e9 "
        f"WHEN abs({number}) > 1e14 THEN {number} / 1e6 WHEN abs({number}) > 1e11 THEN {number} / 1e3 ELSE {number} END"
    )
    moment = "TRY_CAST(CAST(time AS VARCHAR) AS TIMESTAMPTZ)"
    return f"coalesce({scaled}, CASE WHEN isfinite({moment}) THEN epoch({moment}) END)"


def _network() -> str:
    """/24 of an IPv4 address, /48 of an IPv6 one; anything else as it is."""
    address = "CAST(net AS VARCHAR)"
    v4 = f"nullif(regexp_extract({address}, '^(\\d{{1,3}}\\.\\d{{1,3}}\\.\\d{{1,3}})\\.\\d{{1,3}}$', 1), '')"
    v6 = f"nullif(regexp_extract({address}, '^([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+):', 1), '')"
    return f"coalesce({v4} || '.0/24', {v6} || '::/48', {_text(address)})"


def _values(spec: VictimSpec, split: bool, listed: bool) -> str:
    """The query as a flat list of as many finite numbers as the model takes."""
    if split and spec.columns is not None:
        cells = [_cell(column, f"input[{place}]") for place, column in enumerate(spec.columns, 1)]
        flat = f"CAST([{', '.join(cells)}] AS FLOAT[])"
    elif split:
        flat = "TRY_CAST(input AS FLOAT[])"
    else:
        flat = "input" if listed else _numbers("input")
    missing = spec.columns is not None and any(column.missing for column in spec.columns)
    good = "NOT isinf(v)" if missing else "isfinite(v)"
    whole = f"len(list_filter({flat}, lambda v: {good})) = {spec.features} AND len({flat}) = {spec.features}"
    return f"CASE WHEN {whole} THEN {flat} END"


def _cell(column: Column, text: str) -> str:
    if column.words:
        levels = ", ".join(quoted(str(level), "'") for level in column.levels)
        return f"nullif(list_position([{levels}], {text}), 0) - 1"
    if column.missing:
        return f"CASE WHEN coalesce({text}, '') = '' THEN CAST('nan' AS FLOAT) ELSE TRY_CAST({text} AS FLOAT) END"
    return f"TRY_CAST({text} AS FLOAT)"


def _numbers(name: str) -> str:
    """Text such as [[1, 2], [3, 4]], or {1,2} as PostgreSQL writes it, as a flat list; NULL for anything else."""
    text = f"CAST({name} AS VARCHAR)"
    flat = f"'[' || regexp_replace({text}, '[\\[\\]{{}}]', '', 'g') || ']'"
    return f"CASE WHEN left({text}, 1) IN ('[', '{{') THEN TRY_CAST({flat} AS FLOAT[]) END"


def _path(never: bool) -> str:
    text = "CAST(input AS VARCHAR)"
    return (
        "NULL" if never else f"CASE WHEN regexp_matches({text}, '\\.npy(#\\d{{1,12}})?$') THEN left({text}, 4096) END"
    )


def _probs(spec: VictimSpec, listed: bool) -> str:
    """One number a class; of one score, that score; of two classes, the second's will do."""
    flat = "answer" if listed else _numbers("answer")
    if spec.classes == 1:
        return f"CASE WHEN len(list_filter({flat}, lambda v: isfinite(v))) = 1 THEN {flat} END"
    good = f"len(list_filter({flat}, lambda v: v >= 0 AND v <= 1)) = len({flat})"
    whole = f"CASE WHEN {good} AND len({flat}) = {spec.classes} THEN {flat}"
    if spec.classes == 2:
        whole += f" WHEN {good} AND len({flat}) = 1 THEN [1 - ({flat})[1], ({flat})[1]]"
    return f"{whole} END"


def _label(spec: VictimSpec) -> str:
    """The class named, by its number or its name; of probabilities the largest."""
    classes = max(2, spec.classes)
    shown = "CAST(probs[1] > 0 AS INTEGER)" if spec.classes == 1 else "list_position(probs, list_max(probs)) - 1"
    number = "TRY_CAST(answer AS DOUBLE)"
    fits = f"{number} >= 0 AND {number} < {classes} AND {number} = floor({number})"
    whole = f"CASE WHEN {fits} THEN CAST({number} AS INTEGER) END"
    names = ", ".join(quoted(name, "'") for name in spec.class_names)
    named = f"nullif(list_position([{names}], answer), 0) - 1, " if spec.class_names else ""
    return f"CASE WHEN probs IS NOT NULL THEN {shown} ELSE coalesce({named}{whole}) END"


def highest_entropy(spec: VictimSpec) -> float:
    """Of the classes, in bits."""
    return math.log2(max(2, spec.classes))
