"""Nothing that others wrote acts on a terminal or a page, and a key is shown nowhere, whoever echoes it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from hostile_server import HostileServer, as_json, whole
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import leakmeter as lm
from leakmeter import cli
from leakmeter.display import PlainDisplay
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.report.markdown import escaped
from leakmeter.shown import keep_secret, shown
from leakmeter.victims.remote.template import read_description

KEY = "sesame-4711/open+now"
ESCAPE = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202e\u2066\r"
REMOTE = {"key_env": "SHOP_KEY", "timeout": 5, "retries": 0}


@given(st.text())
def test_what_is_shown_acts_on_nothing(text: str) -> None:
    clean = shown(text)
    assert all(character in "\n\t" or character.isprintable() or character.isspace() for character in clean)
    assert not set(clean) & set("\x1b\x07\x08\r\x9b\u202e\u2066\u200b\u2028")
    assert shown(clean) == clean


ECHOES = {
    "name": lambda key: {"inputs": [{"name": "x", "datatype": key, "shape": [-1, 4]}]},
    "outputs": lambda key: {"outputs": [{"name": key, "shape": [-1, 3]}, {"name": "b", "shape": [-1, 3]}]},
    "quoted": lambda key: {"outputs": [{"name": quote(key, safe=""), "shape": [-1, 3]}, {"name": "b"}]},
    "packed": lambda key: {"outputs": [{"name": b64encode(key.encode()).decode(), "shape": [-1, 3]}, {"name": "b"}]},
    "capitals": lambda key: {"outputs": [{"name": key.upper(), "shape": [-1, 3]}, {"name": "b"}]},
    "backwards": lambda key: {"outputs": [{"name": key[::-1], "shape": [-1, 3]}, {"name": "b"}]},
    "batch": lambda key: {"inputs": [{"name": "x", "datatype": "FP32", "shape": [key, 4]}]},
    "escape": lambda key: {"inputs": [{"name": "x", "datatype": ESCAPE + key, "shape": [-1, 4]}]},
}


@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_that_metadata_echoes_is_not_shown(monkeypatch, echo: str) -> None:
    monkeypatch.setenv("SHOP_KEY", KEY)

    def metadata(authorization: str) -> bytes:
        return whole(as_json(ECHOES[echo](authorization.removeprefix("Bearer "))))

    with HostileServer(metadata) as server, pytest.raises(LeakmeterError) as caught:
        lm.load_victim(f"{server.address}/net", remote=REMOTE)
    said = str(caught.value).lower()
    for form in (KEY, KEY[::-1], quote(KEY, safe=""), b64encode(KEY.encode()).decode().rstrip("=")):
        assert form.lower() not in said
    assert "\x1b" not in said


DESCRIPTION = """
url = "http://127.0.0.1:9/{query}"
answer = "scores"
[headers]
{header}
[request]
rows = "{{rows}}"
{request}
"""


@pytest.mark.parametrize(
    "written",
    [
        {"header": 'x-goog-api-key = "AIzaSyD-0123456789"'},
        {"header": 'ocp-apim-subscription-key = "0123456789abcdef"'},
        {"header": 'authorization = "Bearer sesame {key}"'},
        {"header": 'authorization = "Bearer sesame-4711"'},
        {"header": 'x-custom = "sk-abcdef0123456789"'},
        {"header": 'x-custom = "0123456789abcdef0123456789abcdef"'},
        {"query": "?api_key=sesame"},
        {"query": "?code=0123456789abcdef0123456789abcdef"},
        {"query": "?q={key}"},
        {"request": 'api_key = "sesame"'},
        {"request": 'parameters = { token = "sesame" }'},
        {"request": 'note = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi"'},
    ],
)
def test_a_key_written_into_a_description_is_refused(tmp_path: Path, written: dict[str, str]) -> None:
    path = tmp_path / "api.toml"
    path.write_text(DESCRIPTION.format(**{"header": "", "query": "", "request": ""} | written))
    with pytest.raises(UsageError, match="key_env") as caught:
        read_description(path)
    assert not any(key in str(caught.value) for key in ("sesame", "0123456789", "eyJhb"))


def test_honest_descriptions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "api.toml"
    headers = 'x-api-key = "{key}"\nx-auth-token = "Token token={key}"\nanthropic-version = "2023-06-01"'
    path.write_text(DESCRIPTION.format(header=headers, query="v1?version=2", request='model = "resnet-50-v1.5"'))
    assert read_description(path).headers["x-api-key"] == "{key}"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("ask @admin now", "@admin"),
        ("see https://evil.example/x", "https://"),
        ("see www.evil.example", "www.evil"),
        ("fixes #12", "#12"),
        ("GH-12", "GH-12"),
        ("mailto:a@b.example", "@b"),
        ("![x](javascript:1)", "![x]("),
        ("\x1b[31m", "\x1b"),
    ],
)
def test_markdown_makes_no_link_and_no_mention_of_it(text: str, gone: str) -> None:
    assert gone not in escaped(text)


def test_no_name_of_a_run_acts_on_the_terminal_or_the_report(tmp_path: Path, capsys) -> None:
    (tmp_path / "net.py").write_text("import torch\ndef net():\n    return torch.nn.Linear(4, 3)\n")
    keep_secret(KEY)
    plan = {
        "name": f"evil {ESCAPE} @admin {KEY}",
        "victim": {"source": f"{tmp_path / 'net.py'}:net", "low": 0.0, "high": 1.0},
        "attacks": [{"name": "surrogate", "recipe": {"steps": 5}}],
        "views": ["labels"],
        "budget": 40,
        "seeds": [0],
        "detectors": [],
        "prices": {"query": 1.0, "currency": f"{ESCAPE}{KEY}"},
    }
    result = lm.audit(plan, out=tmp_path / "runs", progress=PlainDisplay())
    written = [path for path in result.folder.rglob("*") if path.suffix in (".html", ".md", ".xml", ".sarif", ".txt")]
    results = json.loads((result.folder / "results.json").read_text())
    results["verdict"]["headline"] += ESCAPE
    results["verdict"]["sentences"].append(f"{ESCAPE} {KEY} https://evil.example @admin")
    (result.folder / "results.json").write_text(json.dumps(results))
    for command in (["report"], ["ls", "--out"]):
        place = result.folder if command == ["report"] else result.folder.parent
        ended = CliRunner().invoke(cli.app, [*command, str(place)])
        assert ended.exit_code == 0
        assert not set(ended.output) & set("\x1b\x07\x9b\u202e")
    said = capsys.readouterr()
    for text in (said.out, said.err, *(path.read_text() for path in written)):
        assert not set(text) & set("\x1b\x07\x9b\u202e")
        assert KEY not in text
    page = re.sub(r"(?ms)^(```+)$.*?^\1$", "", (result.folder / "report.md").read_text())  # code is never live
    assert "@admin" not in page
