"""The log drops what a kill cut short, names damage anywhere else, and never throws a whole record away."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakmeter.errors import Inconclusive, UsageError
from leakmeter.oracle.log import AnswerLog
from leakmeter.tensors import digest

COLUMNS = [{"probs": torch.rand(2, 3)}, {"labels": torch.tensor([1, 2, 0])}, {"logits": torch.rand(1, 2).double()}]


def written(folder: Path) -> list[int]:
    """Three records; where each ends."""
    log, ends = AnswerLog(folder), []
    for ask, columns in enumerate(COLUMNS, start=1):
        log.append(ask, digest(torch.full((2,), float(ask))), columns)
        ends.append(log.path.stat().st_size)
    log.close()
    return ends


def read(folder: Path) -> list[dict[str, torch.Tensor]]:
    log = AnswerLog(folder)
    try:
        records = list(log.answers())
        assert [record.ask for record in records] == list(range(1, len(records) + 1))
        return [log.read(record) for record in records]
    finally:
        log.close()


def same(found: list[dict[str, torch.Tensor]], expected: list[dict[str, torch.Tensor]]) -> bool:
    return len(found) == len(expected) and all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 10), (2, 3, 4, 5)])
def test_every_kind_of_column_comes_back_also_through_the_safetensors_library(tmp_path, dtype, shape) -> None:
    columns = {"a": torch.arange(1000)[: torch.Size(shape).numel()].reshape(shape).to(dtype), "b": torch.rand(2, 3).T}
    log = AnswerLog(tmp_path)
    log.append(1, bytes(16), columns)
    assert same(read(tmp_path), [columns])
    (record,) = log.answers()
    payload = log.path.read_bytes()[record.offset : record.offset + record.length]
    assert same([safetensors.torch.load(payload)], [columns])


def test_a_log_cut_at_any_byte_keeps_the_whole_records_and_goes_on(tmp_path) -> None:
    ends = written(tmp_path / "whole")
    content = (tmp_path / "whole" / "answers.bin").read_bytes()
    path = tmp_path / "cut" / "answers.bin"
    path.parent.mkdir()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = sum(end <= cut for end in ends)
        log = AnswerLog(path.parent)
        log.append(whole + 1, bytes(16), {"labels": torch.tensor([cut])})
        log.close()
        assert same(read(path.parent), [*COLUMNS[:whole], {"labels": torch.tensor([cut])}])


def test_any_flipped_byte_is_noticed_and_nothing_is_cut_off(tmp_path) -> None:
    written(tmp_path)
    path = tmp_path / "answers.bin"
    content = path.read_bytes()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(Inconclusive, match=r"is damaged at byte .*; restore it or start a new run") as caught:
            read(tmp_path)
        assert caught.value.exit_code == 4
        assert path.read_bytes() == bytes(damaged)


@settings(max_examples=30)
@given(st.binary(min_size=73, max_size=400))
def test_a_file_that_is_no_log_is_named(tmp_path_factory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("garbage")
    (folder / "answers.bin").write_bytes(content)
    with pytest.raises(Inconclusive, match="damaged at byte 0"):
        AnswerLog(folder)


@pytest.mark.parametrize("short", [0, 10, 200])
def test_a_full_disk_keeps_every_record_before_it_and_none_of_half(tmp_path, short: int) -> None:
    """The kernel itself refuses the write: the file may grow by `short` bytes and no more."""
    end = written(tmp_path)[-1]
    log = AnswerLog(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (end + short, limits[1]))
    try:
        with pytest.raises(UsageError, match=r"cannot write the answers to .*; free space, then use --resume"):
            log.append(4, bytes(16), {"probs": torch.rand(50, 10)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.path.stat().st_size == end
    log.append(4, bytes(16), {"labels": torch.tensor([7])})
    log.close()
    assert same(read(tmp_path), [*COLUMNS, {"labels": torch.tensor([7])}])


def test_an_error_of_the_disk_is_told_in_its_words(tmp_path, monkeypatch) -> None:
    log = AnswerLog(tmp_path)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(UsageError, match="Input/output error"):
        log.append(1, bytes(16), COLUMNS[0])


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot write the answers to"):
        AnswerLog(tmp_path / "file" / "answers")


@given(
    st.tuples(
        *[st.tuples(st.sampled_from(["float32", "float64", "bfloat16"]), st.sampled_from([(6,), (2, 3), (3, 2)]))] * 2
    )
)
def test_a_digest_tells_numbers_shapes_types_and_topics_apart(pair) -> None:
    a, b = (torch.zeros(shape, dtype=getattr(torch, kind)) for kind, shape in pair)
    assert (digest(a) == digest(b)) == (pair[0] == pair[1])
    assert digest(a) != digest(a, "another view")
    assert digest(a) != digest(-a)
    assert digest(a) == digest(a.clone())


def test_a_digest_does_not_depend_on_the_layout_in_memory() -> None:
    x = torch.rand(4, 6)
    assert digest(x.T) == digest(x.T.contiguous())
