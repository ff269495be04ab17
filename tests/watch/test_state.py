"""What a log may look like, and what is made of it: every row that fits once, every other one counted."""

import csv
import json
import sqlite3

import numpy as np
import polars
import pytest
import torch

from leakmeter.box import Box
from leakmeter.data.columns import Columns
from leakmeter.errors import UsageError
from leakmeter.victims.spec import VictimSpec
from leakmeter.watch.databases import exported
from leakmeter.watch.rows import rows_of
from leakmeter.watch.settings import LogSettings
from leakmeter.watch.source import log_files
from leakmeter.watch.state import State

SPEC = VictimSpec("m", (2,), Box(torch.tensor(0.0), torch.tensor(1.0)), 3, "probs", class_names=("cat", "dog", "eel"))
ROWS = [
    {"client": "a", "time": 1.5, "input": [0.25, 0.5], "answer": "dog"},
    {"client": "a", "time": "1970-01-01T00:00:03Z", "input": [0.5, 0.5], "answer": 2},
    {"client": "b", "time": 2000.0, "input": [1.0, 0.0], "answer": "1"},
]


@pytest.fixture
def state(tmp_path):
    opened = State(tmp_path / "state", threads=1)
    yield opened
    opened.close()


def read(state, path, log=None, spec=SPEC):
    return state.read([(path.name, path)], log or LogSettings(), spec)


def stored(state):
    found = state.connection.execute('SELECT client, t, "values", label, probs FROM queries ORDER BY t').fetchall()
    return [
        (client, t, list(values), label, probs and [round(p, 3) for p in probs])
        for client, t, values, label, probs in found
    ]


EXPECTED = [
    ("a", 1.5, [0.25, 0.5], 1, None),
    ("a", 3.0, [0.5, 0.5], 2, None),
    ("b", 2000.0, [1.0, 0.0], 1, None),
]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "db"])
def test_every_form_of_a_log_gives_the_same_rows(state, tmp_path, kind):
    path = tmp_path / f"log.{kind}"
    text = [[row["client"], str(row["time"]), json.dumps(row["input"]), str(row["answer"])] for row in ROWS]
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(ROWS[0]), *text])
    elif kind == "parquet":
        columns = {"client": [r[0] for r in text], "time": [r[1] for r in text], "answer": [r[3] for r in text]}
        polars.DataFrame(columns | {"input": [row["input"] for row in ROWS]}).write_parquet(path)
    else:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE asked (client, time, input, answer)")
            database.executemany("INSERT INTO asked VALUES (?, ?, ?, ?)", text)
        database.close()
    if kind == "db":
        with exported(str(path), "asked", state.folder) as table:
            reading = read(state, table)
    else:
        reading = read(state, path)
    assert stored(state) == EXPECTED
    assert (reading.lines, reading.broken, reading.new) == (3, 0, 3)


def test_what_does_not_fit_is_counted_and_left_out(state, tmp_path):
    good = json.dumps(ROWS[0])
    bad = [
        "not json",
        "[1, 2]",
        '{"client": "a"}',
        json.dumps(ROWS[0] | {"input": [1.0]}),
        json.dumps(ROWS[0] | {"input": [1.0, "x"]}),
        json.dumps(ROWS[0] | {"input": {"a": 1}}),
        json.dumps(ROWS[0] | {"answer": 3}),
        json.dumps(ROWS[0] | {"answer": [0.5, 0.5]}),
        json.dumps(ROWS[0] | {"answer": [0.5, 0.6, 7]}),
        json.dumps(ROWS[0] | {"time": "soon"}),
        json.dumps(ROWS[0] | {"time": float("inf")}),
        json.dumps(ROWS[0] | {"client": ""}),
        json.dumps(ROWS[0] | {"input": "x" * 10_000_000}),
        good[:20] + "\x01\x02" + good[20:],
        good[:-9],
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([good, good, *bad]))
    reading = read(state, path)
    assert stored(state) == EXPECTED[:1]
    assert (reading.lines, reading.broken, reading.repeated) == (17, 15, 1)


@pytest.mark.parametrize("junk", [b"\xff\xfe", b"x\ry", b"\x00", b"\r\r\xff", b"a\rb\r"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_bad_bytes_cost_their_own_line_only(state, tmp_path, kind, junk):
    """Who sends such bytes as a name must not keep the owner from reading all others."""
    path = tmp_path / f"log.{kind}"
    if kind == "csv":
        lines = [b'a,%d,"[0.5,0.%d]",1' % (k, k + 1) for k in range(8)]
        path.write_bytes(b"\n".join([b"client,time,input,answer", *lines[:4], junk, *lines[4:], b""]))
    else:
        lines = [b'{"client": "a", "time": %d, "input": [0.5, 0.%d], "answer": 1}' % (k, k + 1) for k in range(8)]
        path.write_bytes(b"\n".join([*lines[:4], b'{"client": "' + junk + b'"}', *lines[4:], b""]))
    reading = read(state, path)
    assert reading.new == 8
    assert reading.broken == reading.lines - 8 >= 1
    assert reading.unreadable == ()


def test_rows_with_too_many_fields_are_broken(state, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('client,time,input,answer\na,1,"[0.5,0.1]",1\na,2,"[0.5,0.2]",1,extra\nb"c,3,"[0.5,0.3]",1\n')
    reading = read(state, path)
    assert (reading.new, reading.broken) == (2, 1)


def test_a_csv_line_that_is_still_being_written_waits_for_its_end(state, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('client,time,input,answer\na,1,"[0.1, 0.2]",0\na,2,"[0.3, 0.4]",1')
    assert read(state, path).new == 1
    path.write_text('client,time,input,answer\na,1,"[0.1, 0.2]",0\na,2,"[0.3, 0.4]",1\n')
    reading = read(state, path)
    assert (reading.new, reading.repeated) == (1, 0)


def test_probabilities_names_and_long_names(state, tmp_path):
    path = tmp_path / "log.jsonl"
    long = "<b>=cmd|' /C calc'!A0\x1b[31m" + "y" * 5000
    rows = [
        {"client": long, "time": 1, "input": [[0.0], [1.0]], "answer": [0.25, 0.5, 0.25]},
        {"client": long + "z", "time": 2, "input": [0, 1], "answer": [0.125, 0.125, 0.75]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read(state, path)
    found = stored(state)
    assert [row[3:] for row in found] == [(1, [0.25, 0.5, 0.25]), (2, [0.125, 0.125, 0.75])]
    assert len({row[0] for row in found}) == 2
    assert all(len(row[0]) < 100 for row in found)


def test_columns_of_a_table_by_their_names(state, tmp_path):
    kinds = {"Colour": {"kind": "categorical", "levels": ["red", "blue"]}, "Age": {"low": 0, "high": 99}}
    columns = Columns.parse(kinds)
    spec = VictimSpec("m", (2,), Box(columns.low, columns.high), 2, "labels", columns=columns)
    path = tmp_path / "log.csv"
    path.write_text("who,time,Age,Colour,answer\nx,1,40,blue,1\nx,2,41,green,1\nx,3,,red,0\n")
    reading = read(state, path, LogSettings(client="who", columns=("Colour", "Age")), spec)
    assert [row[2] for row in stored(state)] == [[1.0, 40.0]]
    assert reading.broken == 2


def test_array_files_are_read_inside_the_folder_only(state, tmp_path):
    home = tmp_path / "logs"
    home.mkdir()
    np.save(home / "x.npy", np.array([[0.1, 0.2], [0.3, 0.4]]))
    np.save(tmp_path / "outside.npy", np.array([0.9, 0.9]))
    (home / "link.npy").symlink_to(tmp_path / "outside.npy")
    np.save(home / "evil.npy", np.array([{"a": 1}, 2], dtype=object), allow_pickle=True)
    names = [
        "x.npy#1",
        "../outside.npy",
        "link.npy",
        "evil.npy",
        "missing.npy",
        "x.npy#7",
        str(tmp_path / "outside.npy"),
    ]
    path = home / "log.jsonl"
    path.write_text("".join(json.dumps(ROWS[0] | {"input": name}) + "\n" for name in names))
    assert read(state, path).broken == 0
    rows = rows_of(state, ["a"], SPEC, home, 100)
    assert torch.allclose(rows.given.x, torch.tensor([[0.3, 0.4]]))
    assert rows.lost == 6


def test_a_wrong_log_is_a_sentence(state, tmp_path):
    with pytest.raises(UsageError, match="there is no log"):
        log_files(tmp_path / "none.csv")
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="expected a column 'client' in log"):
        read(state, tmp_path / "log.csv")
    (tmp_path / "log.parquet").write_bytes(b"PAR1 nothing")
    assert len(read(state, tmp_path / "log.parquet").unreadable) == 1
    assert stored(state) == []
