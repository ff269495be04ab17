import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from leakmeter._audit.flow import Audit
from leakmeter.report.html import document_html, summary_html
from leakmeter.report.sections import ORDER, report_document
from leakmeter.results import AuditResult

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>${7*7}{{7*7}}"
VOID = {"meta", "link", "img", "br"}


def to_html(result: AuditResult, folder: Path) -> str:
    return document_html(report_document(result, folder))


class Page(HTMLParser):
    """A page as elements with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


@pytest.fixture(scope="module")
def full_html(full_audit, hang_pictures, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("run")
    hang_pictures(full_audit, folder)
    hang_pictures(full_audit, folder, name="adversarial.png")
    return to_html(full_audit, folder)


def evil_audit(make_audit) -> AuditResult:
    """Everything a user can name is hostile."""
    good = make_audit(attacks=2, defenses=("none", "labels"), notes={"detector": EVIL})
    cells = [
        cell.model_copy(update={"view": EVIL, "error": EVIL, "id": EVIL, "status": "failed", "options": {"pool": EVIL}})
        for cell in good.cells
    ]
    arms = [arm.model_copy(update={"label": EVIL, "view": EVIL, "attack": EVIL}) for arm in good.verdict.arms]
    checks = [check.model_copy(update={"message": EVIL, "ok": False}) for check in good.verdict.checks]
    verdict = good.verdict.model_copy(
        update={"headline": EVIL, "sentences": [EVIL], "arms": arms, "checks": checks, "outcome": "undecided"}
    )
    return good.model_copy(
        update={
            "victim": good.victim.model_copy(update={"name": EVIL, "test": EVIL, "authorized_by": EVIL}),
            "plan": good.plan | {"name": EVIL},
            "environment": {"leakmeter": EVIL, EVIL: EVIL},
            "cells": cells,
            "verdict": verdict,
        }
    )


def assert_harmless(html: str) -> None:
    page = Page(html)
    assert page.open == []
    assert not page.all("script")
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    for _, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on")]
        for key in ("href", "src", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    assert "{{7*7}}" in page.text  # shown, not computed
    assert "<script>alert(1)</script>" in page.text


def test_hostile_names_stay_text(make_audit, tmp_path):
    assert_harmless(to_html(evil_audit(make_audit), tmp_path))
    assert_harmless(summary_html(evil_audit(make_audit)))


def test_every_section_has_its_content(full_html):
    page = Page(full_html)
    titles = [attributes["id"] for attributes in page.all("section")]
    assert titles == [name.replace("_", "-") for name in ORDER]
    assert len([svg for svg in page.all("svg") if svg["role"] == "img"]) == 6 + 4 + 1
    assert "1 month" not in page.text
    for words in ("procedural", "noise:0.1", "PRADA", "undecided", "seeds = [", "Raised if"):
        assert words in page.text


def test_sections_without_content_are_absent(make_audit, tmp_path):
    page = Page(to_html(make_audit(attacks=1, views=("labels",)), tmp_path))
    shown = {attributes["id"] for attributes in page.all("section")}
    assert not shown & {"queries", "adversarial", "transfer", "defenses", "detection", "certified"}
    links = {attributes["href"][1:] for attributes in page.all("a")}
    assert links <= set(page.ids())


def test_an_audit_without_a_policy_does_not_look_like_a_pass(make_audit, tmp_path):
    result = make_audit()
    assert result.verdict.outcome == "measured"
    assert result.exit_code == 0
    html = to_html(result, tmp_path)
    assert "Measured, no policy set" in html
    assert 'class="badge good"' not in html
    assert "Policy met" not in html + summary_html(result)


def test_screen_readers_and_keyboards_are_served(full_html):
    page = Page(full_html)
    repeated = [name for name, times in Counter(page.ids()).items() if times > 1]
    assert not repeated
    named = [
        attributes["aria-labelledby"].split() for _, attributes in page.elements if "aria-labelledby" in attributes
    ]
    assert {name for names in named for name in names} <= set(page.ids())
    assert len(page.all("caption")) == len(page.all("table")) > 5
    assert all("scope" in attributes for attributes in page.all("th"))
    assert all(attributes["alt"] for attributes in page.all("img"))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("nav")) == 1
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_page_may_load_nothing(full_html):
    policy = next(m["content"] for m in Page(full_html).all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "script-src" not in policy
    assert "@import" not in full_html
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", full_html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, never asked for


def test_the_same_result_gives_the_same_bytes(make_audit, tmp_path):
    assert to_html(make_audit(), tmp_path) == to_html(make_audit(), tmp_path)


def test_a_result_where_nothing_was_measured_still_has_a_report(make_audit, tmp_path):
    good = make_audit()
    cells = [cell.model_copy(update={"status": "failed", "curve": [], "spending": None}) for cell in good.cells]
    verdict = good.verdict.model_copy(
        update={"arms": [], "headline": "No attack was measured.", "outcome": "undecided"}
    )
    page = Page(to_html(good.model_copy(update={"cells": cells, "verdict": verdict}), tmp_path))
    assert "No copy was scored" in page.text
    assert "18 of 18 runs did not finish" in page.text


def test_notebooks_show_the_verdict(make_audit):
    shown = Audit(**dict(make_audit()))._repr_html_()
    assert "An outsider with 8,000 queries" in shown
    assert "<html" not in shown
    assert not Page(shown).open


def test_a_note_of_another_shape_is_shown_as_it_was_recorded(make_audit, tmp_path: Path):
    page = Page(to_html(make_audit(attacks=1, seeds=1, notes={"detector": {"alarm": 7}}), tmp_path))
    assert '{"alarm": 7}' in page.text


def test_a_word_of_the_glossary_explains_itself_once_a_section(full_html):
    page = Page(full_html)
    words = [attributes for attributes in page.all("a") if attributes.get("class") == "word"]
    assert all(attributes["href"] == "#glossary" for attributes in words)
    assert any(attributes["title"].startswith("fidelity: how often the copy") for attributes in words)
    for section in full_html.split("<section")[1:]:
        assert section.count('title="fidelity: ') <= 1
    assert "glossary" in page.ids()


def test_without_a_glossary_words_are_only_words(make_audit):
    assert 'class="word"' not in summary_html(make_audit())
