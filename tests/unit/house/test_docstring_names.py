"""A dotted name of a module in a docstring, such as ``delta.files.statistics``, leads to code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.house.test_docs import keys

PACKAGE = Path(__file__).parents[3] / "spark_repl"
_NAME = re.compile(r"``([a-z_]+(?:\.[A-Za-z_]+)+)(?:\(\))?``")
_OF_OTHERS = {"config", "delta"}
"""first parts that also begin attributes and Delta's properties, of which two parts are enough"""


def _names() -> Iterator[tuple[Path, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for match in _NAME.finditer(path.read_text("utf-8")):
            yield path, match.group(1)


def _leads_to_code(folder: Path, parts: list[str]) -> bool:
    for index, part in enumerate(parts):
        module = folder / f"{part}.py"
        if module.exists():
            names = parts[index + 1 : index + 2]
            bound = (
                rf"(?:def|class|import.*) {names[0]}\b|^\s*(?:self\.)?{names[0]}\b" if names else ""
            )
            return re.search(bound, module.read_text("utf-8"), re.MULTILINE) is not None
        folder = folder / part
        if not folder.is_dir():
            return False
    return True


def _is_module(path: Path, name: str) -> bool:
    """Return whether the name begins as a room or a neighbouring module does."""
    first = name.split(".")[0]
    return any((folder / first).is_dir() or (folder / f"{first}.py").exists()
               for folder in (PACKAGE, path.parent))  # fmt: skip


def test_dotted_names_lead_to_code() -> None:
    configuration, wrong = keys(), []
    for path, name in _names():
        parts = name.split(".")
        if not _is_module(path, name) or name in configuration or parts[0] in _OF_OTHERS:
            continue
        if not any(_leads_to_code(folder, parts) for folder in (PACKAGE, path.parent)):
            wrong.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert not wrong, "\n".join(wrong)
