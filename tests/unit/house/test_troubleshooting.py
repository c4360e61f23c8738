"""docs/troubleshooting.md: every class of error has its heading, which errors of the command line
point to, and says something; no other has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from spark_repl import errors
from spark_repl.cli.main import report
from spark_repl.errors import SparkReplError

PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
CLASSES = {
    name: found
    for name, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, SparkReplError)
}
SAID_MIN = 60


def sections() -> dict[str, str]:
    """Heading -> text below it, of the part that has the errors."""
    _, _, part = PAGE.read_text("utf-8").partition("\n## Errors by name\n")
    parts = re.split(r"^### (.+)$", part, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))


def test_the_page_has_every_error_and_no_other() -> None:
    assert len(CLASSES) > 20
    assert sorted(sections()) == sorted(CLASSES)
    assert [name for name, text in sections().items() if len(text) < SAID_MIN] == []


@pytest.mark.parametrize("name", CLASSES)
def test_the_command_line_points_to_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    report(CLASSES[name]("what"))
    (anchor,) = re.findall(r"See: docs/troubleshooting\.md#(\S+)", capsys.readouterr().err)
    assert anchor in {heading.lower() for heading in sections()}


def test_a_class_of_another_room_is_its_base(capsys: pytest.CaptureFixture[str]) -> None:
    class OwnError(errors.TargetError):
        pass

    report(OwnError("what"))
    assert "#targeterror\n" in capsys.readouterr().err
