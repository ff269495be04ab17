"""Plants faults in the code that an audit's word depends on, one at a time, and counts how many the tests notice.

    python tools/mutants.py [--each 12] [--seed 0] [--known FILE] [--out FILE]

A mutant is one changed operator, comparison or constant of one file; its tests are those of the same room. Each runs in
a process forked from one that has loaded everything but leakmeter, with the changed source in the place of the file's.
The score and the survivors go to `--out`. What became of a mutant is kept in the file `--known`, by its
source and the tests that it met, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.util
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGETS = {
    "evaluation/bounded.py": ["evaluation/test_bounded.py"],
    "evaluation/intervals.py": ["evaluation/test_intervals.py", "evaluation/test_tries.py"],
    "evaluation/tries.py": ["evaluation/test_tries.py", "verdict/test_verdict.py"],
    "evaluation/crossing.py": ["evaluation/test_crossing.py"],
    "evaluation/cheaper.py": ["evaluation/test_cheaper.py"],
    "evaluation/by_class.py": ["evaluation/test_by_class.py"],
    "evaluation/health.py": ["evaluation/test_health.py"],
    "verdict/arms.py": ["verdict"],
    "verdict/policy.py": ["verdict"],
    "verdict/soundness.py": ["verdict"],
    "verdict/findings.py": ["verdict"],
    "verdict/sentences.py": ["verdict"],
    "oracle/ledger.py": ["oracle/test_ledger.py", "oracle/test_oracle.py"],
    "oracle/oracle.py": ["oracle/test_oracle.py", "oracle/test_replay.py", "oracle/test_charge.py"],
    "certificates/confidence.py": ["certificates/test_confidence.py"],
    "certificates/sequential.py": ["certificates/test_sequential.py"],
    "certificates/smoothing.py": ["certificates/test_smoothing.py", "certificates/test_resuming.py"],
    "certificates/tight.py": ["certificates/test_radii.py", "certificates/test_smoothing.py"],
}
_LOADED = "ignore::pytest.PytestAssertRewriteWarning"  # hypothesis is there before pytest is
SECONDS = 120  # a mutant that runs longer loops, which is noticed too
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Every mutant of a file: line, what was changed, the new source."""
    for number in range(sum(1 for _ in _places(ast.parse(source)))):
        tree = ast.parse(source)
        line, was, change = list(_places(tree))[number]
        change()
        yield line, was, ast.unparse(ast.fix_missing_locations(tree))


def _places(tree: ast.AST) -> Iterator[tuple[int, str, Any]]:
    """Where the tree can be changed, and how; texts stay, and so do guards that nothing here trips (`strict=True`)."""
    guards = {id(word.value) for node in ast.walk(tree) if isinstance(node, ast.Call) for word in node.keywords}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Compare):
            for at, operator in enumerate(node.ops):
                yield line, _text(node), _setter(node.ops, at, SWAPS[type(operator)]())
        elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in SWAPS:
            if not isinstance(node.op, ast.Add) or not _is_text(node):
                yield line, _text(node), lambda node=node: setattr(node, "op", SWAPS[type(node.op)]())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield line, _text(node), lambda node=node: setattr(node, "op", ast.UAdd())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool) and id(node) in guards:
            continue
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield line, _text(node), lambda node=node: setattr(node, "value", not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield line, _text(node), lambda node=node: setattr(node, "value", node.value + 1)
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield line, _text(node), lambda node=node: setattr(node, "value", ast.Constant(None))


def _setter(items: list[Any], at: int, new: ast.AST) -> Any:
    return lambda: items.__setitem__(at, new)


def _text(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:100]


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(each, ast.JoinedStr) or _is_string(each) for each in ast.walk(node))


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class Planted(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds one module in a changed source, whatever the file says."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Only that module."""
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002
        """Where tracebacks point."""
        return str(self.path)

    def get_data(self, path: Any) -> bytes:  # noqa: ARG002
        """The changed source."""
        return self.source.encode()

    def path_stats(self, path: Any) -> Any:
        """No cached bytecode."""
        raise OSError(path)


def noticed(file: str, source: str) -> bool:
    """Whether the tests of the file's room fail with this source in its place."""
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(SECONDS)
        sys.meta_path.insert(
            0, Planted(f"leakmeter.{file[:-3].replace('/', '.')}", ROOT / "src/leakmeter" / file, source)
        )
        failed = True
        try:
            failed = _test(file) != 0
        finally:
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    return status != 0


class Known:
    """What became of mutants, by their source and the tests that they met."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.outcomes: dict[str, bool] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def noticed(self, file: str, source: str) -> bool:
        """As `noticed`, computed once."""
        digest = hashlib.sha256(f"{file}\0{source}".encode())
        for place in (ROOT / "tests" / test for test in TARGETS[file]):
            for test in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                digest.update(test.read_bytes())
        key = digest.hexdigest()[:20]
        if key not in self.outcomes:
            self.outcomes[key] = noticed(file, source)
            if self.path is not None:
                self.path.write_text(json.dumps(self.outcomes))
        return self.outcomes[key]


def _test(file: str) -> int:
    import pytest

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        paths = [str(ROOT / "tests" / test) for test in TARGETS[file]]
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", _LOADED, "--rootdir", str(ROOT), *paths]))


def main() -> None:
    """Some mutants of each file, drawn with the seed."""
    import hypothesis  # noqa: F401  loaded once, before forking
    import matplotlib  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import statsmodels.stats.proportion  # noqa: F401
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=12, help="mutants of a file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", type=Path, help="where to keep what became of each")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutants.json")
    parser.add_argument("files", nargs="*", help="only these, as in verdict/policy.py")
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = Known(given.known)
    files, survivors, killed, start = given.files or list(TARGETS), [], {}, time.monotonic()
    for file in files:
        source = (ROOT / "src/leakmeter" / file).read_text()
        if known.noticed(file, source):
            raise SystemExit(f"the tests of {file} fail without a fault")
        found = list(mutants(source))
        drawn = random.Random(f"{given.seed} {file}").sample(found, min(given.each, len(found)))
        alive = [(line, was) for line, was, changed in drawn if not known.noticed(file, changed)]
        killed[file] = f"{len(drawn) - len(alive)} of {len(drawn)}"
        survivors += [{"file": file, "line": line, "was": was} for line, was in sorted(alive)]
        told = ", ".join(f"{line}: {was}" for line, was in alive)
        sys.stdout.write(f"{file} {killed[file]} {told} ({time.monotonic() - start:.0f} s)\n")
        sys.stdout.flush()
    total = sum(int(text.split(" of ")[1]) for text in killed.values())
    record = {
        "command": f"python tools/mutants.py --each {given.each} --seed {given.seed}",
        "commit": subprocess.check_output(["git", "rev-parse", "HEAD"], text=True, cwd=ROOT).strip(),
        "seeds": [given.seed],
        "mutants": total,
        "score": round(1 - len(survivors) / total, 4),
        "killed": killed,
        "survivors": survivors,
    }
    if not given.files:
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
