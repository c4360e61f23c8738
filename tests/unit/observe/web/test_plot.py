"""Plots: which points the script gets, what is listed below, that names are text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

from spark_repl.observe.web.plot import Plot, html_table, progress_bar

START = datetime(2026, 11, 24, 14, tzinfo=UTC)


def at(*values):
    return [(START + timedelta(minutes=n), value) for n, value in enumerate(values)]


def data(html):
    (text,) = re.findall(r'data-plot="([^"]*)"', html)
    return json.loads(unescape(text))


def test_the_script_gets_times_values_and_units():
    html = Plot("Lag", "how late", "s", {"behind": at(0.0, 5.0)}).html()
    begin = START.timestamp()
    assert data(html) == {
        "names": ["behind"], "unit": "s", "axis": "seconds", "x": [begin, begin + 60],
        "y": [[0.0, 5.0]], "marks": [],
    }  # fmt: skip
    assert "<span>5 s</span>" in html, "the last value stands beside the title"


def test_a_gap_is_a_point_without_a_value_before_the_next_one():
    gap = [*at(1.0), (START + timedelta(minutes=1), None), (START + timedelta(minutes=1), 2.0)]
    x = data(Plot("Lag", "", "s", {"behind": gap}).html())["x"]
    assert x == sorted(set(x)), "the library needs ascending times"


def test_figures_are_listed():
    html = Plot("Rows", "", "/s", {"rows": at(1.5, 12345.0), "other": at(1.0, None)}).html()
    cells = re.findall(r"<td>([^<]*)</td>", html)
    assert cells == ["2026-11-24 14:01:00", "12,345", "", "2026-11-24 14:00:00", "1.5", "1"]


def test_a_plot_without_values_says_so():
    html = Plot("Lag", "", "s", {"behind": at(None, None)}).html()
    assert "No figures yet" in html and "data-plot" not in html


def test_names_and_marks_are_text():
    marks = [(START, "<b>\x1b'\"&")]
    html = Plot("<i>", "<u>", "s", {"<s>": at(1.0)}, marks).html()
    assert {"<i>", "<u>", "<s>", "<b>", "\x1b"}.isdisjoint(re.findall(r"<.>|\x1b", html))
    assert data(html)["marks"] == [[START.timestamp(), "<b>\\x1b'\"&"]]


def test_a_cell_is_text():
    made = html_table("<i>", ["</th>"], [['<script>"&', "a\x1b[31mb\n"]])
    assert "<i>" not in made and "<script>" not in made and "\x1b" not in made
    assert "&lt;script&gt;&quot;&amp;" in made and r"a\x1b[31mb\n" in made


def test_what_is_done_of_nothing_is_no_division():
    assert 'max="1" value="0"' in progress_bar("Copy of <b>", 0, 0)
    assert "<b>" not in progress_bar("<b>", 0, 0)
    assert 'max="12" value="12"' in progress_bar("more than was expected", 12, 10)
    assert "value" not in progress_bar("not known", None, 10)
