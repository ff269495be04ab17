from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from leakmeter.data import fetch as fetching
from leakmeter.data.fetch import REMOTES, Remote, fetch
from leakmeter.errors import UsageError
from leakmeter.progress import Silent, SilentTask


class Recorder(Silent):
    """Counts what a progress bar would show."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0
        self.lines: list[str] = []

    def task(self, title, total):
        self.total = total
        recorder = self

        class Task(SilentTask):
            def advance(self, steps: int = 1, note: str = "") -> None:
                recorder.done += steps

            def __enter__(self):
                return self

            def __exit__(self, *exc):
                return None

        return Task()

    def say(self, line):
        self.lines.append(line)


class Server:
    """A mirror on this machine: files in `root`, and the paths that were asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        server = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                server.asked.append(self.path)
                if self.path.endswith("short"):
                    self.send_response(200)
                    self.send_header("Content-Length", "100")
                    self.end_headers()
                    self.wfile.write(b"half")
                else:
                    super().do_GET()

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
        self.url = f"http://127.0.0.1:{self.http.server_port}/"


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "served").mkdir()
    server = Server(tmp_path / "served")
    thread = Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


def publish(server: Server, monkeypatch, name: str, content: bytes, members: dict[str, int] | None = None) -> None:
    """Serves one file as the whole of MNIST."""
    (server.root / name).write_bytes(content)
    remote = Remote("http://nowhere.invalid/", {name: "sha256:" + hashlib.sha256(content).hexdigest()}, members or {})
    monkeypatch.setitem(REMOTES, "mnist", remote)


def visible(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_file_arrives_whole_and_with_progress(server, monkeypatch, tmp_path):
    content = bytes(range(256)) * 3000
    publish(server, monkeypatch, "images.gz", content)
    progress = Recorder()
    folder = fetch("mnist", data_dir=tmp_path / "data", base_url=server.url, progress=progress)
    assert folder == tmp_path / "data" / "mnist"
    assert (folder / "images.gz").read_bytes() == content
    assert progress.total == progress.done == len(content)
    assert visible(folder) == {"images.gz"}


def test_what_is_right_stays_and_what_is_wrong_is_replaced(server, monkeypatch, tmp_path):
    publish(server, monkeypatch, "images.gz", b"right")
    again = partial(fetch, "mnist", data_dir=tmp_path / "data", base_url=server.url)
    again()
    progress = Recorder()
    folder = again(progress=progress)
    assert len(server.asked) == 1
    assert progress.total is None
    (folder / "images.gz").write_bytes(b"wrong")
    again()
    assert (folder / "images.gz").read_bytes() == b"right"


def test_without_a_folder_it_goes_where_it_will_be_looked_for(server, monkeypatch, tmp_path):
    publish(server, monkeypatch, "images.gz", b"right")
    monkeypatch.setenv("LEAKMETER_DATA", str(tmp_path / "variable"))
    assert fetch("mnist", base_url=server.url) == tmp_path / "variable" / "mnist"


def test_a_wrong_checksum_leaves_nothing_behind(server, monkeypatch, tmp_path):
    publish(server, monkeypatch, "images.gz", b"right")
    (server.root / "images.gz").write_bytes(b"wrong!")
    words = f"expected sha256:{hashlib.sha256(b'right').hexdigest()} .* got another file"
    with pytest.raises(UsageError, match=words):
        fetch("mnist", data_dir=tmp_path / "data", base_url=server.url)
    assert visible(tmp_path / "data") == set()


def test_an_answer_cut_short_leaves_nothing_behind(server, monkeypatch, tmp_path):
    publish(server, monkeypatch, "short", b"half and the rest")
    with pytest.raises(UsageError, match="short"):
        fetch("mnist", data_dir=tmp_path / "data", base_url=server.url)
    assert visible(tmp_path / "data") == set()


def test_a_missing_file_and_a_missing_server_are_named(server, monkeypatch, tmp_path):
    publish(server, monkeypatch, "images.gz", b"right")
    (server.root / "images.gz").unlink()
    with pytest.raises(UsageError, match=r"cannot fetch http://127.*images.gz: 404 Client Error"):
        fetch("mnist", data_dir=tmp_path, base_url=server.url)
    with pytest.raises(UsageError, match=r"cannot fetch http://127.0.0.1:1/images.gz: .*refused"):
        fetch("mnist", data_dir=tmp_path, base_url="http://127.0.0.1:1")


def archive(**members: bytes | None) -> bytes:
    """A tar of files; None makes a link out of the folder."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))
    return file.getvalue()


def test_only_the_named_members_leave_an_archive(server, monkeypatch, tmp_path):
    raw = archive(**{"set/a.bin": b"abc", "../evil": b"evil", "set/other": b"other", "set/link": None})
    publish(server, monkeypatch, "set.tar.gz", raw, {"set/a.bin": 3})
    folder = fetch("mnist", data_dir=tmp_path / "data", base_url=server.url)
    assert visible(tmp_path / "data") == {"mnist/set/a.bin"}
    assert (folder / "set/a.bin").read_bytes() == b"abc"
    fetch("mnist", data_dir=tmp_path / "data", base_url=server.url)
    assert len(server.asked) == 1, "what is unpacked is not fetched again"
    (folder / "set/a.bin").write_bytes(b"a")
    fetch("mnist", data_dir=tmp_path / "data", base_url=server.url)
    assert (folder / "set/a.bin").read_bytes() == b"abc", "what was cut short is"


@pytest.mark.parametrize("raw", [archive(other=b"x"), archive(**{"set/a.bin": None}), b"no archive"])
def test_an_archive_without_the_files_is_named(server, monkeypatch, tmp_path, raw):
    publish(server, monkeypatch, "set.tar.gz", raw, {"set/a.bin": 3})
    with pytest.raises(UsageError, match=r"expected set/a.bin in .*set.tar.gz"):
        fetch("mnist", data_dir=tmp_path / "data", base_url=server.url)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write to .*file"):
        fetch("mnist", data_dir=tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "base_url", "words"),
    [
        ("digits", None, "nothing to fetch"),
        ("minst", None, "did you mean 'mnist'"),
        ("mnist", "file:///etc", "expected an http or https address"),
        ("mnist", "http://[broken", "cannot fetch"),
    ],
)
def test_wrong_requests_are_refused(tmp_path, name, base_url, words):
    with pytest.raises(UsageError, match=words):
        fetch(name, data_dir=tmp_path, base_url=base_url)


def test_every_published_set_can_be_fetched():
    from leakmeter.data.catalogue import PUBLISHED

    assert set(REMOTES) == set(PUBLISHED)
    lengths = {"sha256": 64, "md5": 32}
    for remote in fetching.REMOTES.values():
        for algorithm, _, digest in (checksum.partition(":") for checksum in remote.files.values()):
            assert len(bytes.fromhex(digest)) * 2 == lengths[algorithm]
