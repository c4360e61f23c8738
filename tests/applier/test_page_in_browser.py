"""The page in a real browser: what it shows, what it keeps while it is made again, what it says
when
nobody answers. Needs playwright and a Chromium: its own, or one that is installed; without them it
is skipped, and with ``SPARK_REPL_REQUIRE_BROWSER`` it fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import MagicMock

import pytest

from spark_repl.apply.start.replica import Replica
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import (
    HERE,
    applier,
    apply_without_stream,
    at_any_port,
    without_spark,
)

A = Table("a")
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>'\"😀"
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_DETAILS = '[data-name="From commit to cut, transactions of this run (figures)"]'


def lacking(what: str) -> NoReturn:
    if os.environ.get("SPARK_REPL_REQUIRE_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


@contextmanager
def chromium() -> Iterator[Any]:
    try:
        from playwright import sync_api
    except ImportError:
        lacking("playwright is not installed: pip install -e '.[browser]'")
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with sync_api.sync_playwright() as playwright:
        if found is None and not Path(playwright.chromium.executable_path).exists():
            lacking(f"no browser: none of {', '.join(_BROWSERS)}, and no playwright install")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Replica, LogWriter]]:
    """An applier that has applied a hostile name, and its log."""
    log, hostile = LogWriter(tmp_path / "log"), Table(HOSTILE)
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    log.ddl(hostile.create.replace(f"t.{HOSTILE}", f"t.`{HOSTILE}`"))
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(hostile, (1, "x")))
    with applier(log.folder, tmp_path / "lake") as plain:
        config = at_any_port(plain.config)
    with without_spark(), Replica(MagicMock(), config, parts=HERE) as found:
        apply_without_stream(found)
        yield found, log


@pytest.mark.slow
def test_the_page_goes_on_by_itself_and_keeps_what_was_opened(
    served: tuple[Replica, LogWriter],
) -> None:
    found, log = served
    assert found._endpoint is not None
    address, asked, wrong = f"http://127.0.0.1:{found._endpoint.port}/", set[str](), list[str]()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 360, "height": 740})
        page.on("request", lambda request: asked.add(request.url))
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: [wrong.append("dialog"), dialog.dismiss()])
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.get_by_role("cell", name=HOSTILE).count() >= 1
        assert page.locator("script").count() == 1 and page.locator("img").count() == 0
        _reach_by_keyboard(page)
        page.keyboard.press("Enter")
        assert page.locator(_DETAILS).get_attribute("open") is not None
        first = page.locator("h1").text_content()
        log.transaction(insert(A, (2, "y")))
        found.opened.applied.refresh()
        apply_without_stream(found)
        page.wait_for_function(
            "text => document.querySelector('h1').textContent != text", arg=first
        )
        page.get_by_text("6 transactions in").wait_for()
        assert page.locator(_DETAILS).get_attribute("open") is not None, "and it is open still"
        assert page.evaluate(f"document.activeElement.closest('{_DETAILS}') !== null")
        assert page.get_by_role("status").text_content() == ""
        assert asked == {address} and wrong == []
        colours = [_colour(page, scheme) for scheme in ("light", "dark")]
        assert colours[0] != colours[1]
        found._endpoint.close()
        page.get_by_role("status").get_by_text("No answer since").wait_for()
        assert page.get_by_role("heading", level=1).count() == 1, "what was there stays"


def _reach_by_keyboard(page: Any) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.closest('{_DETAILS}') !== null"):
            return
    raise AssertionError("the figures are not reached by keyboard")


def _colour(page: Any, scheme: str) -> Any:
    page.emulate_media(color_scheme=scheme)
    return page.evaluate("getComputedStyle(document.querySelector('main')).color")
