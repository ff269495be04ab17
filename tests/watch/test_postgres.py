"""A table of a PostgreSQL server, started here for the test: read by COPY, whatever its columns are called."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from leakmeter.errors import UsageError
from leakmeter.watch.flow import watch

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow


def _programs() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of an empty database; a server refuses to run as root, so that one runs as the user postgres."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL here")
    folder = Path(tmp_path_factory.mktemp("postgres"))
    user: list[str] = []
    if os.getuid() == 0:
        if shutil.which("runuser") is None:
            pytest.skip("a server does not run as root")
        user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")
        for parent in folder.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o011)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = {"check": True, "capture_output": True, "cwd": folder}
    subprocess.run([*user, programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", "owner"], **run)
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c datestyle=German"
    control = [*user, programs / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log.txt"]
    subprocess.run([*control, "-o", options, "start"], **run)
    yield f"postgresql://owner:secret@127.0.0.1:{port}/postgres"
    subprocess.run([*control, "-m", "immediate", "stop"], **run)


@pytest.fixture(scope="module")
def rows(victim, natural):
    import torch

    x = torch.rand(80, 4, generator=torch.Generator().manual_seed(3)) * 2 - 1
    with torch.no_grad():
        shown = victim.white_box(x).softmax(1)
    return x, shown


def _fill(address, x, shown):
    with psycopg.connect(address) as source:
        source.execute(
            'CREATE SCHEMA api; CREATE TABLE api."the calls" (who text, moment timestamptz, input real[], '
            "answer jsonb, note text)"
        )
        for place, (query, answer) in enumerate(zip(x.tolist(), shown.tolist(), strict=True)):
            name = ("plain", 'a "quoted", name\nof two lines')[place % 2]
            source.execute(
                "INSERT INTO api.\"the calls\" VALUES (%s, '2026-05-04 03:02:01+02'::timestamptz + %s * "
                "interval '1 minute', %s, %s, NULL)",
                (name, place, query, json.dumps(answer)),
            )


def test_a_table_is_read_as_a_file_would_be_and_again_adds_nothing(server, rows, planned, tmp_path):
    _fill(server, *rows)
    plan = planned(client="who", time="moment", table="api.the calls", train=2)
    found = watch(server, plan, out=tmp_path, progress=False)
    assert (found.reading.lines, found.reading.broken, found.reading.new) == (80, 0, 80)
    assert {each.client for each in found.clients if each.by == "client"} == {
        "plain",
        'a "quoted", name\\nof two lines',
    }
    assert found.clients[-1].first.startswith("2026-05-04T01:0")
    assert {each.view for each in found.clients} == {"probs"}
    again = watch(server, plan, out=tmp_path, progress=False)
    assert (again.reading.new, again.reading.repeated) == (0, 0)
    assert not list((tmp_path / "watch-state").glob("*.csv"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: (a, "none"), "cannot read the table 'none'"),
        (lambda a: (a, 'x"; DROP TABLE y; --'), "does not exist"),
        (lambda a: (a.replace("@127.0.0.1:", "@127.0.0.1:1"), "t"), "cannot read the table"),
        (lambda a: (a.replace("/postgres", ":x/postgres"), "t"), "cannot read the table"),
    ],
)
def test_what_cannot_be_read_is_a_sentence_without_the_password(server, planned, tmp_path, change, sentence):
    address, table = change(server)
    with pytest.raises(UsageError) as raised:
        watch(address, planned(table=table), out=tmp_path, progress=False)
    assert sentence in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
