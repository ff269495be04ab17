"""Downloads the published files, each checked against its published checksum before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import ssl
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from leakmeter.data.places import roots
from leakmeter.errors import UsageError
from leakmeter.progress import SILENT, Progress
from leakmeter.registry import did_you_mean

_CHUNK = 1 << 18
_TIMEOUT = 60.0
_NETWORK = (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError)


@dataclass(frozen=True)
class Remote:
    """Where a dataset lives: a base address and its files, each with an `algorithm:digest`."""

    base: str
    files: dict[str, str]
    members: dict[str, int] = field(default_factory=dict)
    """What to unpack, with its size, where the files are tar archives; nothing else leaves them."""


REMOTES = {
    "mnist": Remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion-mnist": Remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
    "cifar10": Remote(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        {
            f"cifar-10-batches-bin/{batch}.bin": 10_000 * 3_073
            for batch in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
        },
    ),
    "cifar100": Remote(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
        {"cifar-100-binary/train.bin": 50_000 * 3_074, "cifar-100-binary/test.bin": 10_000 * 3_074},
    ),
    "svhn": Remote(
        "http://ufldl.stanford.edu/housenumbers/",
        {
            "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
        },
    ),
}


def fetch(name: str, *, data_dir: Path | None = None, base_url: str | None = None, progress: Progress = SILENT) -> Path:
    """Downloads a dataset into the first of `places.roots(data_dir)` and returns its folder.

    A file appears under its name only whole and with the right checksum. Files already right are left alone; others
    of the same name are replaced. `base_url` names a mirror.
    """
    remote = _remote(name)
    base = base_url or remote.base
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"expected an http or https address to fetch {name} from, got '{base}'")
    folder = roots(data_dir)[0] / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, checksum in remote.files.items():
            _bring(f"{base.rstrip('/')}/{file}", folder / file, checksum, remote.members, progress)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}; choose another data folder") from error
    return folder


def _remote(name: str) -> Remote:
    if name == "digits":
        raise UsageError("digits come with scikit-learn; there is nothing to fetch")
    if name not in REMOTES:
        raise UsageError(
            f"expected a dataset to fetch ({', '.join(REMOTES)}), got '{name}'{did_you_mean(name, REMOTES)}"
        )
    return REMOTES[name]


def _bring(url: str, target: Path, checksum: str, members: dict[str, int], progress: Progress) -> None:
    if members and all(_has_size(target.parent / member, size) for member, size in members.items()):
        progress.say(f"{target.parent}: already unpacked")
        return
    if target.is_file() and _digest(target, checksum) == checksum:
        progress.say(f"{target}: already there")
    else:
        with _temporary(target) as part:
            _download(url, part, checksum, progress)
            os.replace(part, target)
    if members:
        _unpack(target, members)
        target.unlink()


def _download(url: str, part: Path, checksum: str, progress: Progress) -> None:
    received = 0
    try:
        with (
            urllib.request.urlopen(url, timeout=_TIMEOUT) as response,
            part.open("wb") as file,
            progress.task(f"fetching {url}", response.length) as task,
        ):
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                received += len(chunk)
                task.advance(len(chunk))
    except (*_NETWORK, ValueError) as error:  # ValueError: an address that is none
        raise UsageError(f"cannot fetch {url}: {error}; try again, or name a mirror") from error
    got = _digest(part, checksum)
    if got != checksum:
        raise UsageError(f"expected {checksum} from {url}, got {got} ({received:,} bytes); try again, or name a mirror")


def _digest(path: Path, checksum: str) -> str:
    """The digest of the file, by the algorithm and in the form of `checksum`."""
    algorithm = checksum.partition(":")[0]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _unpack(archive: Path, members: dict[str, int]) -> None:
    """Writes the named regular files and nothing else, so no other path in the archive matters."""
    try:
        with tarfile.open(archive) as tar:
            for member in members:
                _extract(tar, member, archive.parent / member)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise UsageError(f"expected {', '.join(members)} in {archive}, got an archive without: {error}") from error


def _extract(tar: tarfile.TarFile, member: str, target: Path) -> None:
    source = tar.extractfile(member) if tar.getmember(member).isfile() else None
    if source is None:
        raise KeyError(f"{member} is not a regular file")
    target.parent.mkdir(exist_ok=True)
    with _temporary(target) as part:
        with source, part.open("wb") as file:
            shutil.copyfileobj(source, file)
        os.replace(part, target)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A file beside `target`, gone afterwards unless it was renamed."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)
