"""README.md and docs/: short enough, every link leads somewhere, what they name is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.config.tables import TableRule
from tests.package import api_page
from tests.support.sources import functions

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DESIGN = ROOT / "docs" / "design"
README_LINES_MAX = 150
FIRST_SENTENCE_WORDS_MAX = 30

ROOMS = sorted(path.parent.name for path in (ROOT / "spark_repl").glob("*/__init__.py"))
# room/module, also with the package before it and .py behind it
MODULE = re.compile(rf"(?<![\w/.])(?:spark_repl/\w[\w/]*|(?:{'|'.join(ROOMS)})/\w[\w/]*)(?:\.\w+)?")
KINDS = "unit|property|applier|spark|crash|live|soak"
TEST = re.compile(
    rf"(?<![\w/.])(?:tests/)?((?<=tests/)\w[\w/.]*\w|(?:{KINDS})/[\w/]+\.py)(?:::(\w+))?"
)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_linked_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    others = [page for page in PAGES[1:] if page.parent != DESIGN or page.name == "README.md"]
    pages = [str(page.relative_to(ROOT)) for page in others]
    assert [page for page in pages if f"({page})" not in text] == []


def test_every_decision_is_listed() -> None:
    text = (DESIGN / "README.md").read_text("utf-8")
    pages = sorted(page.name for page in DESIGN.glob("*.md") if page.name != "README.md")
    assert pages
    assert [page for page in pages if f"({page})" not in text] == []


def missing_modules(text: str) -> list[str]:
    """What a text names like a module, or a folder, of the package that isn't there."""
    missing = []
    for name in MODULE.findall(text):
        place = ROOT / "spark_repl" / name.removeprefix("spark_repl/")
        made = "__pycache__" in place.parts
        if not (made or place.exists() or Path(f"{place}.py").exists()):
            missing.append(name)
    return missing


def missing_tests(text: str) -> list[str]:
    """What a text names like a test, or a file beside the tests, that isn't there."""
    missing = []
    for name, function in TEST.findall(text):
        place = ROOT / "tests" / name
        if not place.exists() or (function and function not in functions(place)):
            missing.append(f"{name}::{function}" if function else name)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_tests_that_are_named_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    assert missing_modules(text) + missing_tests(text) == []


def test_missing_modules_and_tests_are_recognised() -> None:
    good = (
        "`write/rows/direct_writer` spark_repl/apply/start/resume.py tests/unit/house/test_docs.py"
        " spark/lab.py"
    )
    assert missing_modules(good) + missing_tests(good) == []
    bad = "`write/none` spark_repl/none/resume.py spark_repl/apply/none.py ─▶ decode/none on"
    assert missing_modules(bad) == [
        "write/none", "spark_repl/none/resume.py", "spark_repl/apply/none.py", "decode/none",
    ]  # fmt: skip
    bad = "`tests/unit/none.py`, spark/test_none.py; unit/house/test_docs.py::test_none"
    assert missing_tests(bad) == [
        "unit/none.py", "spark/test_none.py", "unit/house/test_docs.py::test_none",
    ]  # fmt: skip


def keys() -> dict[str, object]:
    """Every key of the configuration, with its default."""
    found: dict[str, object] = {}
    for top in fields(Config):
        if top.name == "file":
            continue
        value = TableRule() if top.name == "tables" else getattr(Config(), top.name)
        if is_dataclass(value):
            own = (key.name for key in fields(value) if key.metadata)
            found |= {f"{top.name}.{name}": getattr(value, name) for name in own}
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
    sections = "source relay target apply ddl filters tables catalog observe"
    text = dict.fromkeys(["", *sections.split()], "")
    for found, _, line in rows():
        text[found[0].rpartition(".")[0]] += line
    missing = [key for key in keys().keys() - named
               if f"`{key.rpartition('.')[2]}`" not in text[key.rpartition(".")[0]]]  # fmt: skip
    assert missing == []


def defaults() -> Iterator[tuple[str, str]]:
    """(key, default) as the page has them; of a row with several keys one for each, or one that is
    that of all."""
    for named, cell, _ in rows():
        shown = cell.split(", ") if len(cell.split(", ")) == len(named) else [cell]
        yield from zip(named, shown * len(named) if len(shown) == 1 else shown, strict=True)


@pytest.mark.parametrize(("key", "default"), list(defaults()))
def test_the_page_has_the_defaults(key: str, default: str) -> None:
    value = keys()[key]
    said = json.dumps(list(value) if isinstance(value, tuple) else value)
    tables = ["{}"] if value == () else []  # of the file, which are pairs here
    assert default.strip("`") in (said, said.strip('"'), *tables)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_page_begins_with_a_short_sentence_that_says_what_it_is_for(page: Path) -> None:
    _, paragraph, *_ = page.read_text("utf-8").split("\n\n")
    sentence, *_ = re.split(r"(?<=[.!?])\s", paragraph)
    assert sentence.endswith(".") and len(sentence.split()) <= FIRST_SENTENCE_WORDS_MAX
    assert not sentence.startswith("For who ")


@pytest.mark.parametrize(
    "page", [page for page in sorted(DESIGN.glob("*.md")) if page.name != "README.md"],
    ids=lambda page: page.name,
)  # fmt: skip
def test_a_design_page_has_all_five_parts(page: Path) -> None:
    headings = re.findall(r"^## (.+)", page.read_text("utf-8"), re.MULTILINE)
    assert {"Context", "Decision", "Measured", "Rejected", "Where"} - set(headings) == set()


def test_the_api_page_is_as_the_docstrings_are() -> None:
    """``make api`` writes it."""
    assert api_page.PAGE.read_text("utf-8") == api_page.page()
