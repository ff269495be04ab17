"""Tables: what is read, what is described, and the one sentence for everything that is wrong with one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.data.catalogue import load
from leakmeter.data.columns import Column, Columns
from leakmeter.data.describe import describe
from leakmeter.data.table import read
from leakmeter.errors import UsageError
from leakmeter.trial import tried

polars = pytest.importorskip("polars")
HEADER = "Age,Sex,Amount,home_own,home_rent,Class\n"
ROWS = [
    "41,male,12.5,1,0,good",
    "23,female,,0,1,bad",
    "67,male,80,1,0,good",
    "30,female,1e2,0,1,bad",
    "19,male,5,1,0,bad",
]


def written(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return written(tmp_path, HEADER + "\n".join(ROWS * 4) + "\n")


def test_a_file_is_described_and_encoded(rows: Path) -> None:
    train, test = (load(str(rows), split, target="Class") for split in ("train", "test"))
    assert len(train) == 16
    assert len(test) == 4
    assert train.columns is not None
    age, sex, amount, own, _ = train.columns
    assert (age.kind, age.low, age.high) == ("integer", 19, 67)
    assert (sex.kind, sex.levels) == ("categorical", ("female", "male"))
    assert (amount.kind, amount.missing) == ("numeric", True)
    assert (own.kind, own.group) == ("onehot", "home")
    assert train.classes == 2
    both = torch.cat([train.x, test.x])
    assert set(both[:, 1].tolist()) == {0.0, 1.0}
    assert int(both[:, 2].isnan().sum()) == 4


def test_the_section_written_is_the_section_read(rows: Path) -> None:
    columns = describe(read(rows), rows, "Class")
    assert list(Columns.parse(columns.section())) == list(columns)


def test_a_panic_of_the_parser_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(path: Path) -> None:
        raise polars.exceptions.PanicException("assertion failed: offset + length <= self.length")

    monkeypatch.setattr(polars, "scan_parquet", panics)
    monkeypatch.setattr("leakmeter.data.table.tried", lambda *_, **__: None)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="cannot be read: assertion failed"):
        load(str(tmp_path / "rows.parquet"), "train", target="Class")


def test_a_parser_that_crashes_or_never_ends_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were seen with damaged files: what such a file does happens in a process of its own."""
    for name, text, sentence in (
        ("aborts", "import os; os.abort()", "ended a process with code -6"),
        ("sleeps", "import time; time.sleep(60)", "could not be opened within"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        (tmp_path / "rows.parquet").write_bytes(b"PAR1")
        with pytest.raises(UsageError, match=sentence):
            tried(name, tmp_path / "rows.parquet", seconds=2.0)


def test_a_damaged_parquet_file_is_a_sentence(tmp_path: Path) -> None:
    polars.DataFrame({"a": [1.0] * 50, "Class": [0, 1] * 25}).write_parquet(tmp_path / "rows.parquet")
    content = (tmp_path / "rows.parquet").read_bytes()
    (tmp_path / "rows.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="cannot be used"):
        load(str(tmp_path / "rows.parquet"), "train", target="Class")


def test_whole_numbers_that_count_nothing_are_names(tmp_path: Path) -> None:
    """Once they were taken for as many classes as the largest says: 10^18 of them."""
    rows = {"a": [float(k) for k in range(50)], "Class": [0, 4485090715960753733] * 25}
    polars.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    found = load(str(tmp_path / "rows.parquet"), "train", target="Class")
    assert found.classes == 2
    assert set(found.y.tolist()) == {0, 1}


def test_parquet_reads_alike(rows: Path, tmp_path: Path) -> None:
    frame = polars.read_csv(rows)
    frame.write_parquet(tmp_path / "rows.parquet")
    one, other = (load(str(path), "train", target="Class") for path in (rows, tmp_path / "rows.parquet"))
    assert torch.equal(one.x.nan_to_num(-1), other.x.nan_to_num(-1))
    assert torch.equal(one.labelled()[1], other.labelled()[1])


@pytest.mark.parametrize(
    ("text", "target", "told"),
    [
        ("", None, "empty file"),
        (HEADER, "Class", "empty table"),
        ("a,b,a\n1,2,3\n", None, "'a' twice"),
        ("a,b\n1,2\n1,3\n", None, "'a' of .* got one only"),
        ("a,b\n1,2\n2,x\n3,4\n", None, "number in the column 'b' .* 'x' in row 2"),
        ("a,when\n1,2024-01-05\n2,2024-02-05\n", None, "'when' .* dates"),
        ("a,b\n1,2\n2,3\n", "c", "the target 'c' .* got a, b"),
        ("a,y\n1,0\n2,\n3,1\n", "y", "a class in the column 'y' .* row 2"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(tmp_path: Path, text: str, target: str | None, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        load(str(written(tmp_path, text)), "train", target=target)
    assert "\n" not in str(caught.value)


def test_a_row_of_too_few_fields_is_a_sentence_and_an_empty_last_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age,debt,paid\n" + "30,1.5,yes\n40,,no\n" * 5 + "50,2\n")
    with pytest.raises(UsageError, match=r"expected 3 fields in every row of .*, got 2 in row 11; a missing value"):
        load(path, "all", target="paid")
    path.write_text('age,debt\n"3\n0",1\n' + "40,\n" * 5)
    assert read(path).height == 6


def test_what_was_declared_is_held_to(rows: Path) -> None:
    known = list(describe(read(rows), rows, "Class"))
    few = [Column(name="Sex", kind="categorical", levels=("male", "other")) if c.name == "Sex" else c for c in known]
    with pytest.raises(UsageError, match=r"levels male, other in the column 'Sex' .* 'female' in row 2"):
        load(str(rows), "train", columns=Columns(few), target="Class")
    low = [Column(name="Age", kind="integer", low=20, high=70) if c.name == "Age" else c for c in known]
    with pytest.raises(UsageError, match=r"from 20 to 70 in the column 'Age', got 19 in row 5"):
        load(str(rows), "train", columns=Columns(low), target="Class")
    strict = [c.model_copy(update={"missing": False}) for c in known]
    with pytest.raises(UsageError, match=r"a value in the column 'Amount' .* row 2"):
        load(str(rows), "train", columns=Columns(strict), target="Class")
    extra = [*known, Column(name="Ages", low=0, high=1)]
    with pytest.raises(UsageError, match=r"the column 'Ages' .* did you mean 'Age'"):
        load(str(rows), "train", columns=Columns(extra), target="Class")


def test_columns_are_checked() -> None:
    for settings, told in [
        ({"kind": "integer"}, "low and high"),
        ({"low": 1, "high": 1}, "constant column"),
        ({"kind": "categorical", "levels": ["a"]}, "two different levels"),
        ({"kind": "nominal"}, "kind"),
        ({"kind": "onehot"}, "group"),
    ]:
        with pytest.raises(UsageError, match=f"column 'a' .*{told}"):
            Columns.parse({"a": settings})


@given(st.integers(1, 40), st.integers(0, 2**32))
def test_uniform_rows_are_admitted_and_stay_where_they_are(n: int, seed: int) -> None:
    columns = Columns(
        [
            Column(name="a", kind="integer", low=-3, high=9),
            Column(name="b", low=0.1, high=0.7),
            Column(name="c", kind="categorical", levels=(10, 20, 40)),
            Column(name="d", kind="onehot", group="g"),
            Column(name="e", kind="onehot", group="g"),
        ]
    )
    x = columns.uniform(n, torch.Generator().manual_seed(seed))
    assert torch.equal(columns.snap(columns.admit(x)), x)
    noisy = columns.snap(x + torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)) * 10)
    columns.admit(noisy)


@pytest.mark.slow
def test_a_million_rows_stay_below_a_gigabyte(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = {f"n{j}": rng.normal(size=10**6) for j in range(11)} | {"y": rng.integers(0, 2, 10**6)}
    polars.DataFrame(frame | {"s": rng.choice(["a", "b", "c"], 10**6)}).write_parquet(tmp_path / "m.parquet")
    code = (
        "import resource, sys; from leakmeter.data.catalogue import load; "
        "assert len(load(sys.argv[1], 'train', target='y')) == 800_000; "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.parquet"], capture_output=True, text=True, check=True
    )
    assert int(out.stdout) * (1024 if sys.platform != "darwin" else 1) < 10**9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"low": 0, "high": 9, "mean": 12}, "a mean is a number between low and high"),
        ({"kind": "categorical", "levels": ["a", "b"], "mean": 0.5}, "has shares instead"),
        ({"kind": "categorical", "levels": ["a", "b"], "shares": [1.0]}, "one for each level"),
        ({"kind": "categorical", "levels": ["a", "b"], "shares": [0.5, 0.2]}, "add up to 1"),
        ({"kind": "categorical", "levels": ["a", "b"], "shares": [1.5, -0.5]}, "not be negative"),
        ({"low": 0, "high": 9, "shares": [1.0]}, "of a categorical column"),
    ],
)
def test_published_figures_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        Columns.parse({"City": settings})
    assert "'City'" in str(refused.value)
