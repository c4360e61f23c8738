"""README.md and docs/: short enough, and every link leads somewhere."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from spark_repl.cli.main import _RUN
from spark_repl.config import Config

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README_LINES_MAX = 200


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_linked_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    pages = [str(page.relative_to(ROOT)) for page in PAGES[1:]]
    assert [page for page in pages if f"({page})" not in text] == []


def keys() -> dict[str, object]:
    """Every key of the configuration, with its default."""
    found: dict[str, object] = {}
    for top in fields(Config):
        value = getattr(Config(), top.name)
        if is_dataclass(value):
            found |= {f"{top.name}.{key.name}": getattr(value, key.name) for key in fields(value)}
        else:
            found[top.name] = value
    return found


def rows() -> list[tuple[list[str], str, str]]:
    """(keys, default, all text) of each row of the page's table."""
    found = []
    for line in (ROOT / "docs" / "configuration.md").read_text("utf-8").splitlines():
        if line.startswith("| `"):
            first, default, _ = (cell.strip() for cell in line[1:-1].split(" | ", 2))
            named = re.findall(r"`([\w.]+)`", first)
            section = named[0].rpartition(".")[0]
            named[1:] = [f"{section}.{name}" for name in named[1:]]
            found.append((named, default, line))
    return found


def test_the_page_has_every_key_and_no_other() -> None:
    named = {key for found, _, _ in rows() for key in found}
    assert named - keys().keys() == set()
    text = dict.fromkeys(("", "source", "relay", "target", "apply"), "")
    for found, _, line in rows():
        text[found[0].rpartition(".")[0]] += line
    missing = [key for key in keys().keys() - named
               if f"`{key.rpartition('.')[2]}`" not in text[key.rpartition(".")[0]]]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize(
    ("key", "default"), [(named[0], default) for named, default, _ in rows() if len(named) == 1]
)
def test_the_page_has_the_defaults(key: str, default: str) -> None:
    value = keys()[key]
    assert default.strip("`") == json.dumps(list(value) if isinstance(value, tuple) else value)


def test_the_page_has_every_command() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    named = set()
    for cell in re.findall(r"^\| `([^`]+)`", text, re.MULTILINE):
        words = cell.replace("\\|", "|").split()
        named |= (
            {words[0], *(f"{words[0]} {word}" for word in words[1].split("|")[:3])}
            if len(words) > 1
            else {words[0]}
        )
    assert sorted(command for command in _RUN if command not in named) == []
