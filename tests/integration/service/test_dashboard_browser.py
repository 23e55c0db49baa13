"""The dashboard in Chromium: both widths, both schemes, axe, keyboard, with and without JavaScript."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.dashboard import project, seeded
from support.registry_rows import name
from tidegate.service.web.app import create_app
from tidegate.service.web.server import serving
from tidegate.service.web.settings import WebSettings

pytestmark = [pytest.mark.servers, pytest.mark.slow]
playwright = pytest.importorskip("playwright.sync_api")
AXE = Path(__file__).parents[2] / "support/axe/axe.min.js"
CHROMIUM = shutil.which("chromium")
SIZES = {"wide": (1400, 900), "narrow": (360, 800)}
SCREENS = (
    "/",
    *(f"/streams/{name(number)}" for number in (0, 3, 6, 8, 10)),  # usual, error, never ran, by hour, by number
    "/proof",
    "/lakes",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = seeded(project(tmp_path_factory.mktemp("project"), 60))
    yield made
    made.close()


@pytest.fixture(scope="module")
def address(service):
    with serving(create_app(service, WebSettings(port=18322, token="t"))) as url:
        yield url.partition("?")[0].rstrip("/")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("needs Debian's package chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser, address):
    """Opens pages that have logged in, and collects what their console says."""
    contexts, said = [], []

    def open_(path="/", *, size="wide", scheme="light", script=True):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=script,
            bypass_csp=False,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on(
            "request", lambda asked: said.append(asked.url) if not asked.url.startswith((address, "data:")) else None
        )
        page.goto(f"{address}/?token=t")
        page.goto(address + path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def run_of(page, address):
    page.goto(f"{address}/streams/orders_000")
    return page.locator("a[href^='/runs/']").last.get_attribute("href")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_screen_is_accessible_and_fits(opened, address, size, scheme):
    page = opened(size=size, scheme=scheme)
    for path in (*SCREENS, run_of(page, address)):
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide"
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
        told = [(each["id"], [node["html"][:150] for node in each["nodes"]][:3]) for each in found["violations"]]
        assert told == [], path
        if folder := os.environ.get("TIDEGATE_SCREENSHOTS"):
            label = path.strip("/").replace("/", "-")[:24] or "overview"
            page.screenshot(path=Path(folder) / f"{label}-{size}-{scheme}.png")


@pytest.mark.parametrize("script", [True, False])
def test_every_action_by_click(opened, service, script):
    service.asked.clear()
    page = opened("/streams/orders_000", script=script)
    for text in ("Run now", "Verify", "Repair", "Pause", "Resume"):
        page.get_by_role("button", name=text).click()
        page.get_by_role("status").wait_for()
    page.goto(page.url.replace("orders_000?done=resume", "orders_003" if script else "orders_010"))
    page.get_by_role("button", name="Acknowledge error").click()
    page.get_by_text("Error seen").wait_for()
    asked = [action for action, _, _ in service.asked]
    assert asked == ["run", "verify", "repair", "pause", "resume", "acknowledge"]


@pytest.mark.parametrize("script", [True, False])
def test_search_and_filters(opened, script):
    page = opened(script=script)
    page.locator("#q").fill("orders_04")
    if not script:
        page.get_by_role("button", name="Show").click()
    playwright.expect(page.locator("#streams tbody tr")).to_have_count(10)
    page.locator("#state").select_option("paused")
    if not script:
        page.get_by_role("button", name="Show").click()
    playwright.expect(page.locator("#streams tbody tr")).not_to_have_count(10)
    assert set(page.locator("#streams td .pill").all_inner_texts()) == {"paused"}


def test_a_stream_is_reached_and_run_by_keyboard(opened, service):
    service.asked.clear()
    page = opened("/?sort=name")
    link = page.get_by_role("link", name=name(0), exact=True)
    for _ in range(60):
        page.keyboard.press("Tab")
        if link.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=name(0)).wait_for()
    button = page.get_by_role("button", name="Run now")
    for _ in range(20):
        page.keyboard.press("Tab")
        if button.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("status").wait_for()
    assert [(action, stream) for action, stream, _ in service.asked] == [("run", name(0))]
