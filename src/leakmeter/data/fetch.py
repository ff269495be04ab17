"""Downloads the published files, each checked against its published checksum before it gets its name."""

from __future__ import annotations

import tarfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pooch
from requests import RequestException

from leakmeter.data.places import roots
from leakmeter.errors import UsageError, first_line
from leakmeter.progress import SILENT, Progress, Task
from leakmeter.registry import did_you_mean

_TIMEOUT = 60.0


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
    of the same name are replaced.

    Args:
        name: a published dataset.
        data_dir: where to put it; None: where it will be looked for.
        base_url: a mirror.
        progress: what shows progress.
    """
    remote = _remote(name)
    base = base_url or remote.base
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"expected an http or https address to fetch {name} from, got '{base}'")
    folder = roots(data_dir)[0] / name
    if remote.members and _unpacked(folder, remote):
        progress.say(f"{folder}: already unpacked")
        return folder
    pooch.get_logger().setLevel("ERROR")
    for file, checksum in remote.files.items():
        archive = _retrieve(f"{base.rstrip('/')}/{file}", folder / file, checksum, progress)
        if remote.members:
            _unpack(archive, remote)
            archive.unlink()
    return folder


def _remote(name: str) -> Remote:
    if name == "digits":
        raise UsageError("digits come with scikit-learn; there is nothing to fetch")
    if name not in REMOTES:
        raise UsageError(
            f"expected a dataset to fetch ({', '.join(REMOTES)}), got '{name}'{did_you_mean(name, REMOTES)}"
        )
    return REMOTES[name]


def _retrieve(url: str, target: Path, checksum: str, progress: Progress) -> Path:
    with ExitStack() as tasks:
        download = pooch.HTTPDownloader(progressbar=_Bar(f"fetching {url}", progress, tasks), timeout=_TIMEOUT)
        try:
            return Path(pooch.retrieve(url, checksum, fname=target.name, path=target.parent, downloader=download))
        except RequestException as error:
            raise UsageError(f"cannot fetch {url}: {first_line(error)}; try again, or name a mirror") from error
        except ValueError as error:  # the checksum of what came is another
            raise UsageError(
                f"expected {checksum} from {url}, got another file; try again, or name a mirror"
            ) from error
        except OSError as error:
            why = error.strerror or error
            raise UsageError(f"cannot write to {target.parent}: {why}; choose another data folder") from error


class _Bar:
    """A task in the form in which pooch moves a bar: it sets `total`, then counts whole chunks."""

    total = 0

    def __init__(self, title: str, progress: Progress, tasks: ExitStack) -> None:
        self._title, self._progress, self._tasks = title, progress, tasks
        self._task: Task | None = None
        self._done = 0

    def update(self, received: int) -> None:
        """Moves on by what came, at most to the end."""
        if self._task is None:
            self._task = self._tasks.enter_context(self._progress.task(self._title, self.total))
        step = min(received, self.total - self._done)
        self._done += step
        self._task.advance(step)

    def reset(self) -> None:
        """Not needed: pooch fills the bar once more at the end, and it is full."""

    def close(self) -> None:
        """Not needed: the task closes with its block."""


def _unpacked(folder: Path, remote: Remote) -> bool:
    sizes = {member: folder / member for member in remote.members}
    return all(path.is_file() and path.stat().st_size == remote.members[name] for name, path in sizes.items())


def _unpack(archive: Path, remote: Remote) -> None:
    """Writes the named regular files and nothing else, so no other path in the archive matters."""
    try:
        with tarfile.open(archive) as tar:
            for member in remote.members:
                if not tar.getmember(member).isfile():
                    raise KeyError(f"{member} is not a regular file")
                tar.extract(member, archive.parent, filter="data")
    except (tarfile.TarError, KeyError, EOFError) as error:
        expected = ", ".join(remote.members)
        raise UsageError(f"expected {expected} in {archive}, got an archive without: {error}") from error
