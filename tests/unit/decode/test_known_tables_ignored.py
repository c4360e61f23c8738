"""What a worker does not read of tables that filters leave out."""

from __future__ import annotations

from pathlib import Path

from spark_repl.binlog.rows.walk import walk
from spark_repl.decode.known_tables import IgnoredTables, KnownTables
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.tables.source_table import Unapplied
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.decoder_log import read_log


def test_columns_of_what_waits_are_not_looked_at(tmp_path: Path) -> None:
    """But for those of a table that a foreign key leads from, if they can be decoded."""
    log = LogWriter(tmp_path)
    log.transaction(insert(Table("a"), (1, "x")), insert(Table("b"), (1, "x")))
    ignored = IgnoredTables(frozenset({"t.a", "t.b"}))
    known = KnownTables(dict.fromkeys(ignored.tables, Unapplied.LEFT_OUT), ignored, {"t.b"})
    found = walk(*read_log(log.path, compressed=False), True, definitions=known)
    read = {images.definition.name: (len(images.definition.columns), images.changes)
            for images in found}  # fmt: skip
    assert read == {"t.a": (0, 0), "t.b": (2, 1)}


def test_columns_of_what_is_left_out_are_not_looked_at(tmp_path: Path) -> None:
    """But for those of a table that a foreign key leads from."""
    log = LogWriter(tmp_path)
    log.transaction(*(insert(Table(name), (1, "x")) for name in ("a", "b", "c")))
    ignored = IgnoredTables(frozenset({"t.d"}), ReplicationFilters(do_table=("t.a",)))
    assert [name for name in ("t.a", "t.b", "t.c", "t.d") if name in ignored] == [
        "t.b", "t.c", "t.d",
    ]  # fmt: skip
    known = KnownTables({}, ignored, {"t.c"})
    found = walk(*read_log(log.path, compressed=False), True, definitions=known)
    read = {images.definition.name: (len(images.definition.columns), images.changes)
            for images in found}  # fmt: skip
    assert read == {"t.a": (2, 1), "t.b": (0, 0), "t.c": (2, 1)}
