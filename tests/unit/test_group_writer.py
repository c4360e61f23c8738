"""What the group writer has done here and what by the workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.group import GroupWriter


@pytest.mark.parametrize(("missing", "here"), [(0, True), (1, True), (2, False)])
def test_several_missing_indexes_are_made_by_the_workers(missing: int, here: bool) -> None:
    writer: Any = SimpleNamespace(
        _lanes=None, tracking=MagicMock(), commits=MagicMock(), workers=MagicMock()
    )
    names = [f"f{number}" for number in range(missing)]
    writer.tracking.key_index.return_value.missing.return_value = names
    GroupWriter._complete_indexes(writer, [MagicMock()])
    (call,) = writer.workers.run.call_args_list
    assert [task.data_file for task in call.args[1]] == names
    assert call.kwargs == {"here": here}


def test_merge_needs_no_index() -> None:
    writer: Any = SimpleNamespace(_lanes=MagicMock(), workers=MagicMock())
    GroupWriter._complete_indexes(writer, [MagicMock()])
    assert not writer.workers.run.called
