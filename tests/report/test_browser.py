"""The report as a browser sees it: opened from disk, in Chromium without a window."""

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from leakmeter.report.html import document_html
from leakmeter.report.sections import report_document

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
EVIL = "<script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(2)>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's chromium and chromium-driver"),
]


class Browser:
    """Chromium with what it logged and what it asked of the network."""

    def __init__(self) -> None:
        webdriver = pytest.importorskip("selenium.webdriver")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
        ):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")  # an alert must fail the test, not vanish
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def open(self, path, *, width: int = 1280, scheme: str = "light") -> None:
        self.driver.get_log("performance")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get(path.as_uri())

    def run(self, script: str):
        return self.driver.execute_script(f"return {script}")

    def requests(self) -> set[str]:
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return {url for url in sent if not url.startswith("data:")}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.driver.quit()


@pytest.fixture(scope="module")
def page(full_audit, hang_pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    hang_pictures(full_audit, folder, size=(64, 256))
    victim = full_audit.victim.model_copy(update={"name": EVIL})
    arms = [arm.model_copy(update={"label": EVIL}) if arm.attack == "dfme" else arm for arm in full_audit.verdict.arms]
    verdict = full_audit.verdict.model_copy(update={"arms": arms})
    path = folder / "report.html"
    evil = full_audit.model_copy(update={"victim": victim, "verdict": verdict})
    path.write_text(document_html(report_document(evil, folder)))
    return path


def test_it_opens_from_disk_without_an_error_or_a_request(browser, page):
    browser.open(page)
    assert browser.run("document.readyState") == "complete"
    assert browser.driver.get_log("browser") == []
    assert browser.requests() == {page.as_uri()}


def test_hostile_names_stay_text(browser, page):
    browser.open(page)
    assert browser.run("document.scripts.length") == 0
    assert EVIL in browser.run("document.querySelector('.eyebrow').textContent")
    assert browser.run("[...document.querySelectorAll('img')].every(i => i.src.startsWith('data:image/png'))")
    labels = browser.run("[...document.querySelectorAll('svg text')].map(t => t.textContent)")
    assert any(label.startswith("<script>alert") for label in labels)


def test_charts_and_pictures_are_drawn(browser, page):
    browser.open(page)
    boxes = "[...document.querySelectorAll('figure > svg.chart')].map(s => s.getBoundingClientRect())"
    sizes = browser.run(f"{boxes}.map(r => [r.width, r.height])")
    assert len(sizes) == 6 + 4 + 1
    assert all(width > 300 and height > 200 for width, height in sizes)
    lines = "[...document.querySelectorAll('svg.chart path')].filter(p => getComputedStyle(p).stroke != 'none').length"
    assert browser.run(lines) > 50
    assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert browser.run("document.images.length") == 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_in_both_schemes(browser, page, scheme):
    browser.open(page, scheme=scheme)
    colors = browser.run(
        "['--paper','--ink','--muted','--accent','--series-1','--series-2','--series-3','--series-4','--series-5',"
        "'--series-6'].map(n => getComputedStyle(document.documentElement).getPropertyValue(n).trim())"
    )
    paper, *inks = map(_luminance, colors)
    contrasts = [(max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) for ink in inks]
    assert (paper > 0.9) == (scheme == "light")
    assert min(contrasts[:3]) >= 4.5  # WCAG AA for text
    assert min(contrasts[3:]) >= 3  # and for graphics


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_of_the_page(browser, page, width):
    browser.open(page, width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_a_table_that_scrolls_shows_it(browser, page):
    """The shadow stands still while the covers over it move: both are there, and the caption stays in sight."""
    browser.open(page, width=390)
    wide = "[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth && s.clientWidth > 0)"
    shown = browser.run(f"{wide}.map(s => getComputedStyle(s).backgroundAttachment)")
    assert set(shown) == {"local, local, scroll, scroll"}
    ends = browser.run(f"{wide}.map(s => s.querySelector('caption span').getBoundingClientRect().right)")
    assert max(ends) <= 390


def test_the_summary_prints_on_one_page(browser, page):
    browser.open(page)
    paper = {"width": 688, "height": 1017, "deviceScaleFactor": 1, "mobile": False}  # A4 without its margins
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", paper)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    wide = browser.run("document.documentElement.scrollWidth")  # a browser shrinks the print of what is too wide
    ends = browser.run("[...document.querySelectorAll('.summary')].map(s => s.getBoundingClientRect().bottom)")
    after = browser.run("getComputedStyle(document.querySelector('.summary + section:not(.summary)')).breakBefore")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(ends) == 2
    assert wide <= 688
    assert max(ends) < 1017
    assert after == "page"


def test_the_first_tab_stop_skips_to_the_verdict(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.run("document.activeElement.id") == "main"


def _luminance(color: str) -> float:
    """Relative luminance of #rrggbb, as WCAG defines it."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
