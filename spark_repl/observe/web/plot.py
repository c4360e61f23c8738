"""Plot: a line over time, or bars, as SVG in HTML, with the figures in a table below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from ..screen import plain

Points = Sequence[tuple[datetime, float | None]]
Marks = Sequence[tuple[datetime, str]]
Cells = Sequence[Sequence[str]]
_WIDTH, _HEIGHT, _TOP = 600, 110, 8


def html_table(caption: str, names: Sequence[str], rows: Cells) -> str:
    """Return a table as HTML. Every cell is escaped."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_text(c)}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{_text(caption)}"'
        f' data-name="{_text(caption)}"><table><caption>{_text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def progress_bar(text: str, done: int, of: int) -> str:
    """Return a progress bar as HTML."""
    bar = f'<progress max="{max(of, done, 1)}" value="{done}"></progress>'
    return f"<p><label>{_text(text)}{bar}</label></p>"


def line_plot(title: str, unit: str, points: Points, marks: Marks = ()) -> str:
    """Return the points as a line, which breaks at points without a value; "" without values.

    Marks within the plot's time are drawn, each with its text.
    """
    values = [value for _, value in points if value is not None]
    if not values:
        return ""
    most, first, last = max(values), points[0][0], points[-1][0]
    span = max((last - first).total_seconds(), 0.001)
    drawn = "".join(f'<polyline points="{" ".join(part)}"/>' for part in _parts(points, most, span))
    for at, label in marks:
        if first <= at <= last:
            x = f"{(at - first).total_seconds() / span * _WIDTH:.1f}"
            drawn += (
                f'<line class="mark" x1="{x}" x2="{x}" y1="0" y2="{_HEIGHT}">'
                f"<title>{_time(at)} {_text(label)}</title></line>"
            )
    text = (f"{title}: {_number(values[-1])} {unit} last, {_number(most)} {unit} at most, from"
            f" {_time(first)} to {_time(last)}")  # fmt: skip
    rows = [(_time(at), "" if value is None else _number(value)) for at, value in reversed(points)]
    return _figure(f"{title}, {unit}", text, drawn, ("at", unit), rows)


def bar_plot(title: str, names: Sequence[str], counts: Sequence[int]) -> str:
    """Return a bar for each count; "" if all are 0."""
    most, step = max(counts, default=0), _WIDTH / max(len(counts), 1)
    if not most:
        return ""
    drawn = "".join(
        f'<rect x="{number * step:.1f}" y="{_y(count, most):.1f}" width="{step * 0.8:.1f}"'
        f' height="{_HEIGHT - _y(count, most):.1f}"/>'
        for number, count in enumerate(counts)
    )
    rows = [(name, f"{count:,}") for name, count in zip(names, counts, strict=True)]
    return _figure(title, title, drawn, ("", "transactions"), rows)


def _parts(points: Points, most: float, span: float) -> Iterator[list[str]]:
    """Yield the coordinates of each stretch without a gap. A single point is a short stroke."""
    part, first = list[str](), points[0][0]
    for at, value in [*points, (points[-1][0], None)]:
        if value is not None:
            x = (at - first).total_seconds() / span * _WIDTH
            part.append(f"{x:.1f},{_y(value, most):.1f}")
        elif part:
            yield part if len(part) > 1 else [part[0], f"{float(part[0].split(',')[0]) + 2:.1f},"
                                              f"{part[0].split(',')[1]}"]  # fmt: skip
            part = []


def _y(value: float, most: float) -> float:
    return _HEIGHT - (value / most if most else 0.0) * (_HEIGHT - _TOP)


def _figure(title: str, text: str, drawn: str, names: Sequence[str], rows: Cells) -> str:
    """Return a figure with its table. ``title`` names it for the script, so it never changes."""
    return (
        f"<figure><figcaption>{_text(text)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{_text(text)}">{drawn}</svg>'
        f'<details data-name="{_text(title)} (figures)"><summary>figures</summary>'
        f"{html_table(title, names, rows)}</details></figure>"
    )


def _text(text: str) -> str:
    return escape(plain(text))


def _time(at: datetime) -> str:
    return at.isoformat(sep=" ", timespec="seconds")


def _number(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
