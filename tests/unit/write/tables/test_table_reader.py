"""TableReader: a Delta table is the channel's own only if its commits show it."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from spark_repl.errors import TargetError
from spark_repl.write.tables.table_metadata import DEFINITION
from spark_repl.write.tables.table_reader import TableReader


@pytest.mark.parametrize(
    ("configuration", "position"),
    [({}, 7), ({DEFINITION: "{}"}, None)],
    ids=["somebody's", "another channel's"],
)
def test_a_table_of_another_writer_is_refused(
    configuration: dict[str, str], position: int | None
) -> None:
    """Without our definition, or without a position of this channel's."""
    delta = MagicMock()
    delta.last_txn.return_value = position
    parts = MagicMock(), delta, MagicMock(), MagicMock()
    reader = TableReader(*parts, "app", MagicMock())
    snapshot = MagicMock(configuration=configuration, folder="/lake/t/a")
    with pytest.raises(TargetError, match="not made by this channel") as caught:
        reader.read_created("t.a", "t/a", snapshot)
    assert (caught.value.table, caught.value.file) == ("t.a", "/lake/t/a")
    assert "move it away" in str(caught.value.hint)
