"""Plot: lines over time for the page's script to draw, with the figures in a table below.

A table of the page comes from here also. Every text is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from ..screen import plain

Points = Sequence[tuple[datetime, float | None]]
Marks = Sequence[tuple[datetime, str]]
Cells = Sequence[Sequence[str]]
_GAP_S = 1.0
_AXES = {"s": "seconds", "/s": "per second"}
"""texts of axes that are longer than their unit"""


@dataclass(frozen=True)
class Plot:
    """A plot with one vertical axis. ``about``: what it shows; ``unit``: of its values; ``series``:
    points by name, all with the same times. A point without a value is a gap."""

    title: str
    about: str
    unit: str
    series: dict[str, Points]
    marks: Marks = ()

    def html(self) -> str:
        """Return the plot as HTML; without values it says so."""
        first = next(iter(self.series.values()))
        values = [value for _, value in first if value is not None]
        if not values:
            area, data = '<p class="none">No figures yet</p>', ""
        else:
            area, data = "", f' data-plot="{escape(self._data())}"'
        return (
            f'<figure class="plot" data-name="{_text(self.title)}"{data}>'
            f"<h3>{_text(self.title)}<span>{_text(self._last(first))}</span></h3>"
            f'<p class="last">{_text(self.about)}</p>'
            f'<div class="area">{area}</div>{self._figures() if values else ""}</figure>'
        )

    def _last(self, points: Points) -> str:
        values = [(at, value) for at, value in points if value is not None]
        if not values:
            return ""
        return f"{number(values[-1][1])} {self.unit}"

    def _data(self) -> str:
        """Return what the script needs as JSON: times in seconds since 1970, values, marks."""
        points = [*self.series.values()]
        x = [at.timestamp() - (value is None) * _GAP_S for at, value in points[0]]
        y = [[value for _, value in series] for series in points]
        marks = [(at.timestamp(), plain(label)) for at, label in self.marks]
        axis = _AXES.get(self.unit, self.unit)
        fields = {"names": [*self.series], "unit": self.unit, "axis": axis, "x": x, "y": y,
                  "marks": marks}  # fmt: skip
        return json.dumps(fields)

    def _figures(self) -> str:
        names = [f"{name}, {self.unit}" for name in self.series]
        columns = [dict(points) for points in self.series.values()]
        rows = [
            (time_text(at), *("" if (v := column.get(at)) is None else number(v)
                              for column in columns))
            for at, _ in reversed(next(iter(self.series.values())))
        ]  # fmt: skip
        return (
            f'<details data-name="{_text(self.title)} (figures)"><summary>figures</summary>'
            f"{html_table('', ('at', *names), rows)}</details>"
        )


def html_table(caption: str, names: Sequence[str], rows: Cells) -> str:
    """Return a table as HTML. ``caption``: "" for none."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_text(c)}</td>" for c in row) + "</tr>" for row in rows)
    named = f' aria-label="{_text(caption or names[0])}"'
    scrolls = f' data-name="{_text(caption)}"' if caption else ""
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide" tabindex="0" role="region"{named}{scrolls}><table>{title}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def progress_bar(text: str, done: int | None, of: int) -> str:
    """Return a progress bar as HTML. ``done``: None if unknown."""
    value = "" if done is None else f' max="{max(of, done, 1)}" value="{done}"'
    return f'<progress aria-label="{_text(text)}"{value}></progress>'


def _text(text: str) -> str:
    return escape(plain(text))


def time_text(at: datetime) -> str:
    """Return a time in UTC to the second."""
    return at.astimezone(UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


def number(value: float) -> str:
    """Return three digits of a number, and all before the point."""
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
