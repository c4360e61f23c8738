"""Docs: the documentation's pages as HTML, for links of the page's errors.

The pages are in a clone's ``docs``, or where an installation has them. Only what these pages use of
Markdown is read: headings, code, tables, lists, links between pages.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from .page import text_document

_CLONE = Path(__file__).parents[3] / "docs"
_MARKUP = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\(([^)\s]+)\)")
_LINK = re.compile(r"(?:[\w-]+\.md)?(?:#[\w-]+)?")


@cache
def _folder() -> Path:
    installed = Path(sysconfig.get_path("data")) / "share" / "doc" / "spark_repl"
    return _CLONE if (_CLONE / "troubleshooting.md").is_file() else installed


@cache
def doc_names() -> tuple[str, ...]:
    """Return the names of the pages that exist here."""
    return tuple(sorted(path.name for path in _folder().glob("*.md")))


@cache
def doc_page(name: str) -> str:
    """Return a page as HTML. ``name``: one of ``doc_names``. Raise OSError."""
    text = (_folder() / name).read_text("utf-8")
    return text_document(f"{name} · spark_repl", "".join(_blocks(text)))


def _blocks(text: str) -> Iterator[str]:
    """Yield the blocks of a page as HTML."""
    for number, part in enumerate(text.split("```")):
        if number % 2:  # its first line names the language
            yield f"<pre><code>{escape(part.partition(chr(10))[2])}</code></pre>"
            continue
        for kind, lines in groupby(part.splitlines(), _kind):
            yield from _block(kind, [*lines])


def _kind(line: str) -> str:
    for kind, begin in (("code", "    "), ("heading", "#"), ("table", "|"), ("list", "* ")):
        if line.startswith(begin):
            return kind
    return "text" if line.strip() else ""


def _block(kind: str, lines: list[str]) -> Iterator[str]:
    if kind == "heading":
        for line in lines:
            level, title = len(line) - len(line.lstrip("#")), line.lstrip("# ")
            anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            yield f'<h{level} id="{anchor}">{_inline(title)}</h{level}>'
    elif kind == "code":
        yield f"<pre><code>{escape(chr(10).join(line[4:] for line in lines))}</code></pre>"
    elif kind == "table":
        rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
        cells = ("".join(f"<td>{_inline(c.strip())}</td>" for c in row)
                 for row in rows if set("".join(row)) - set("-: "))  # fmt: skip
        body = "</tr><tr>".join(cells)
        yield f'<div class="wide" tabindex="0"><table><tr>{body}</tr></table></div>'
    elif kind == "list":
        yield "<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>"
    elif kind:
        yield f"<p>{_inline(' '.join(lines))}</p>"


def _inline(text: str) -> str:
    """Return a text with its code, emphasis and links as HTML."""
    result, last = "", 0
    for match in _MARKUP.finditer(text):
        result += escape(text[last : match.start()]) + _marked(match)
        last = match.end()
    return result + escape(text[last:])


def _marked(match: re.Match[str]) -> str:
    code, strong, label, link = match.groups()
    if code is not None:
        return f"<code>{escape(code)}</code>"
    if strong is not None:
        return f"<b>{_inline(strong)}</b>"
    named = _inline(label)
    return f'<a href="{escape(link)}">{named}</a>' if link and _LINK.fullmatch(link) else named
