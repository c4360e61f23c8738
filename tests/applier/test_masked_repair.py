"""Rows that were read by another secret key than the table was made with are not taken in: a key's
file may have changed while the applier runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.errors import RowsOutdated
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown
from tests.support.read_rows import Read, repaired

A = Table("a")


class OtherKey(Read):
    """``Read`` of a process that has another key."""

    def of(self, found, folder):  # type: ignore[no-untyped-def]
        made = super().of(found, folder)
        columns = made.definition.columns
        read = replace(columns[1], mask="sha256:00000000")
        return replace(made, definition=replace(made.definition, columns=(columns[0], read)))


@pytest.mark.parametrize("reads", [Read, OtherKey])
def test_rows_masked_by_another_key_are_refused(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch, reads: type[Read]
) -> None:
    monkeypatch.setenv("MASK_KEY", "planted-key-2718")
    log.transaction(insert(A, (1, "x")))
    rule = {"match": "t.a", "mask": {A.columns[1][0]: "sha256"}}
    come = [(1, "hash")]
    made = repaired(log, target, reads(come, []), tables=[rule], keys={"mask_key_env": "MASK_KEY"})
    assert made is not None
    ((_, shown),) = last_shown(target)["t.a"]
    if reads is Read:
        assert made.refused is None and shown == "hash"
    else:
        assert "by another key" in str(made.refused) and len(shown) == 64
        assert not isinstance(made.refused, RowsOutdated)
