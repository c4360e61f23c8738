"""Lines and bars: where the points lie, what is said of them, that names are text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from spark_repl.observe.web.plot import bar_plot, html_table, line_plot, progress_bar

START = datetime(2026, 11, 24, 14, tzinfo=UTC)


def at(*values):
    return [(START + timedelta(minutes=n), value) for n, value in enumerate(values)]


def drawn(svg):
    return [
        [tuple(map(float, point.split(","))) for point in points.split()]
        for points in re.findall(r'<polyline points="([^"]*)"', svg)
    ]


def test_a_line_goes_from_the_left_to_the_right_and_up():
    (points,) = drawn(line_plot("Late", "s", at(0.0, 5.0, 10.0)))
    assert points == [(0.0, 110.0), (300.0, 59.0), (600.0, 8.0)]


def test_a_gap_is_one():
    first, second = drawn(line_plot("Late", "s", at(1.0, 1.0, None, 2.0)))
    assert [x for x, _ in first] == [0.0, 200.0]
    assert second[0] == (600.0, 8.0) and len(second) == 2, "a single point can be seen"


def test_nothing_but_zeros_lies_at_the_bottom():
    assert drawn(line_plot("Late", "s", at(0.0, 0.0))) == [[(0.0, 110.0), (600.0, 110.0)]]


def test_figures_are_said_and_listed():
    made = line_plot("Late", "s", at(1.5, 12345.0))
    assert "12,345 s last, 12,345 s at most, from 2026-11-24 14:00:00+00:00" in made
    cells = re.findall(r"<td>([^<]*)</td>", made)
    assert cells == ["2026-11-24 14:01:00+00:00", "12,345", "2026-11-24 14:00:00+00:00", "1.5"]
    assert line_plot("Late", "s", at(None, None)) == line_plot("Late", "s", []) == ""


def test_bars_are_as_high_as_their_counts():
    made = bar_plot("Waited", ["within 1 s", "later"], [3, 1])
    heights = [float(h) for h in re.findall(r'<rect [^>]*height="([\d.]+)"', made)]
    assert heights == [102.0, 34.0]
    assert "<td>within 1 s</td><td>3</td>" in made
    assert bar_plot("Waited", ["a"], [0]) == ""


def test_a_cell_is_text():
    made = html_table("<i>", ["</th>"], [['<script>"&', "a\x1b[31mb\n"]])
    assert "<i>" not in made and "<script>" not in made and "\x1b" not in made
    assert "&lt;script&gt;&quot;&amp;" in made and r"a\x1b[31mb\n" in made


def test_marks_lie_at_their_time_and_none_outside():
    marks = [(START + timedelta(minutes=n), f"<b>{n}") for n in (-1, 0, 1, 2, 3)]
    made = line_plot("Late", "s", at(0.0, 5.0, 10.0), marks)
    assert re.findall(r'<line class="mark" x1="([\d.]+)"', made) == ["0.0", "300.0", "600.0"]
    assert re.findall(r"<title>[^<]* &lt;b&gt;(\d)</title>", made) == ["0", "1", "2"]


def test_what_is_done_of_nothing_is_no_division():
    assert 'max="1" value="0"' in progress_bar("Copy of <b>", 0, 0) and "<b>" not in progress_bar(
        "<b>", 0, 0
    )
    assert 'max="12" value="12"' in progress_bar("more than was expected", 12, 10)
