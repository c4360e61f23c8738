"""The page in a real browser: what it shows, what it keeps while it is made again, what it says
when
nobody answers. Needs playwright and a Chromium: its own, or one that is installed; without them it
is skipped, and with ``SPARK_REPL_REQUIRE_BROWSER`` it fails."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import MagicMock

import pytest

from spark_repl.apply.start.replica import Replica
from spark_repl.config import Observe
from spark_repl.control.records.channels import channel_at
from spark_repl.observe.reports.progress_history import COLUMNS
from spark_repl.observe.status.status import status
from spark_repl.observe.status.table_figures import FigureReader
from spark_repl.observe.web.docs import doc_page
from spark_repl.observe.web.endpoint import Endpoint, EndpointSnapshot
from spark_repl.observe.web.lag_history import lag_history
from spark_repl.observe.web.page import SCRIPTS, STYLES, Extras, asset
from spark_repl.observe.web.page import page as whole
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import (
    HERE,
    applier,
    apply_without_stream,
    at_any_port,
    run,
    without_spark,
)

A = Table("a")
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>'\"😀"
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_MORE = '[data-name="more"]'
ASSETS = {
    **dict.fromkeys(STYLES, "text/css"),
    **dict.fromkeys(SCRIPTS, "text/javascript"),
}


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
        assert page.get_by_text(HOSTILE).count() >= 1
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0
        _reach_by_keyboard(page, _MORE)
        page.keyboard.press("Enter")
        assert page.locator(_MORE).get_attribute("open") is not None
        first = page.locator(".foot").text_content()
        plot = page.locator('[data-name="Latency of the kept cuts"] canvas').element_handle()
        log.transaction(insert(A, (2, "y")))
        found.opened.applied.refresh()
        apply_without_stream(found)
        page.wait_for_function(
            "text => document.querySelector('.foot').textContent != text", arg=first
        )
        page.get_by_text("6 transactions in").wait_for()
        assert page.locator(_MORE).get_attribute("open") is not None, "and it is open still"
        assert page.evaluate(f"document.activeElement.closest('{_MORE}') !== null")
        assert plot.evaluate("canvas => canvas.isConnected"), "the plot is not drawn anew"
        assert page.locator("#notice").text_content() == ""
        own = {address + path for path in ("", *(f"assets/{name}" for name in ASSETS))}
        assert {url for url in asked if not url.startswith("data:")} == own and wrong == []
        colours = [_colour(page, scheme) for scheme in ("light", "dark")]
        assert colours[0] != colours[1]
        found._endpoint.close()
        page.get_by_role("status").get_by_text("No answer since").wait_for()
        assert page.get_by_role("heading", level=1).count() == 1, "what was there stays"


def _reach_by_keyboard(page: Any, place: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.closest('{place}') !== null"):
            return
    raise AssertionError(f"{place} is not reached by keyboard")


ROWS = {
    "table": "t.a", "gtid_executed": "", "at": "2026-11-24T14:00:00+00:00", "columns_left_out": 0,
    "columns": [{"name": "id", "number": True}, {"name": "<i>v", "number": False}],
    "rows": [["1", None], ["2", "NULL"], ["3", HOSTILE], ["4", {"hex": "00ff", "bytes": 9}],
             ["5", {"text": "x" * 300, "length": 301}]],
}  # fmt: skip
TOKEN = "a-token-of-24-characters"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[str]:
    """The address of a page with figures in each of its parts, which needs a token for all."""
    (tmp_path / "token").write_text(TOKEN)
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    for key in range(5):
        log.transaction(insert(A, (key, "x")))
    run(log.folder, tmp_path / "lake", group_max_transactions=1)
    found, now = status(str(tmp_path / "lake")), time.time()
    problem = {"what": f"it fails: {HOSTILE}", "hint": "x", "doc": "troubleshooting.md#logerror"}
    found |= {"state": "running", "problems": [problem]}
    found["copy"] = {"tables": ["t.b"], "number": 1, "rows": 5, "expected": 20}
    found["past"] = {"columns": COLUMNS, "samples": [
        [now - 60 + 10 * n, 0.5, n, 5.0, 50.0 + n, 40.0, 2.5] for n in range(6)
    ]}  # fmt: skip
    at = channel_at(str(tmp_path / "lake"))
    history, figures = lag_history(at.control), FigureReader(at).figures()
    extras = Extras("/data/lake", "/data/my.toml", figures, has_rows=True, has_docs=True)
    token_file, public = str(tmp_path / "token"), {
        f"/assets/{name}": EndpointSnapshot(kind, partial(asset, name), is_public=True)
        for name, kind in ASSETS.items()
    }  # fmt: skip
    endpoint = Endpoint(Observe(listen="127.0.0.1:0", rows=True, token_file=token_file))
    endpoint.serve({
        "/": EndpointSnapshot("text/html", lambda: whole(found, history, live=True, extras=extras)),
        "/rows": EndpointSnapshot("application/json", str, lambda fields: json.dumps(ROWS)),
        "/docs/troubleshooting.md": EndpointSnapshot(
            "text/html", partial(doc_page, "troubleshooting.md"), is_public=True),
        **public,
    })  # fmt: skip
    yield endpoint.address
    endpoint.close()


@pytest.mark.slow
def test_the_token_is_asked_for_and_then_rows_are_shown(tables: str) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 420, "height": 900})
        wrong = list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: [wrong.append("dialog"), dialog.dismiss()])
        page.goto(tables)
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_text("The token is not accepted.").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Tables").wait_for()
        page.reload()
        page.get_by_role("heading", name="Tables").wait_for()  # the tab has it still
        name = page.get_by_role("button", name="t.a")
        name.focus()
        page.keyboard.press("Enter")
        page.locator("#rows tbody tr").last.wait_for()
        cells = page.locator("#rows tbody tr td:nth-child(2)")
        shown = [" ".join(text.split()) for text in cells.all_text_contents()]
        assert shown == ["NULL", "NULL", HOSTILE, "0x00ff… 9 bytes", "x" * 300 + "… 301 characters"]
        assert cells.nth(0).locator(".null").count() == 1 > cells.nth(1).locator(".null").count()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
        page.keyboard.press("Escape")
        assert not page.locator("#rows").is_visible()
        assert page.evaluate("document.activeElement.dataset.table") == "t.a", "where it was"
        assert page.locator("script").count() == 2 and wrong == []
        page.goto(f"{tables}#token={TOKEN}")
        page.wait_for_function("!location.href.includes('token')")


PARTS = ("header", ".problems", ".copy progress", ".tiles", ".plots", ".tables", "details.more",
         ".foot")  # fmt: skip
"""the parts of the page, from the top"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_the_parts_are_where_they_belong(
    tables: str, tmp_path: Path, width: int, scheme: str
) -> None:
    with chromium() as browser:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{tables}#token={TOKEN}")
        page.locator(".plots canvas").nth(2).wait_for()
        boxes = [page.locator(part).first.bounding_box() for part in PARTS]
        assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
        tops = [box["y"] for box in boxes if box]
        assert tops == sorted(tops)
        plots = [one.bounding_box() for one in page.locator(".plots").first.locator("figure").all()]
        assert len(plots) == 3 and all(plot["height"] > 200 for plot in plots)
        side_by_side = len({plot["y"] for plot in plots}) == 1
        assert side_by_side == (width == 1280)
        assert _contrast(page, "h1") > 7 and _contrast(page, ".plot .last") > 4.5
        assert _contrast(page, ".pill") > 4.5 and _contrast(page, "button.link") > 4.5
        drawn = tmp_path / "page.png"
        page.screenshot(path=drawn, full_page=True)
        assert drawn.stat().st_size > 20_000, "it is not blank"
        for at in range(3):
            assert _colours(page, at) > 5, "a plot has axes and a line"
        link = page.get_by_role("link", name="docs/troubleshooting.md#logerror")
        assert link.get_attribute("href") == "/docs/troubleshooting.md#logerror"
        page.goto(tables + "docs/troubleshooting.md#logerror")
        assert page.locator(":target").text_content() == "LogError"


def _colours(page: Any, number: int) -> int:
    """The number of colours that a plot's canvas has."""
    return int(page.locator(".plots canvas").nth(number).evaluate("""canvas => {
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      return new Set(new Uint32Array(data.buffer)).size;
    }"""))  # fmt: skip


def _contrast(page: Any, selector: str) -> float:
    """The contrast of a text to what is behind it, as WCAG computes it."""
    return float(page.locator(selector).first.evaluate(r"""element => {
      const light = color => {
        const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map(
          c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      let behind = element;
      while (/, 0\)|transparent/.test(getComputedStyle(behind).backgroundColor))
        behind = behind.parentElement;
      const pair = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
      const [a, b] = pair.map(light).sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    }"""))  # fmt: skip


def _colour(page: Any, scheme: str) -> Any:
    page.emulate_media(color_scheme=scheme)
    return page.evaluate("getComputedStyle(document.querySelector('main')).color")
