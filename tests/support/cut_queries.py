"""The SQL of docs/python.md that reads cuts from a control table, and a control table for it."""

from __future__ import annotations

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from tests.support.examples import ALL

UUID = "11111111-2222-3333-4444-555555555555"
QUERY = ALL["docs/python.md sql 1"].text
CHOSEN = {
    "newest": QUERY[QUERY.index("SELECT sequence") : QUERY.index(")")].strip(),
    "time": ALL["docs/python.md sql 2"].text,
    "gtid": ALL["docs/python.md sql 3"].text,
    "source time": ALL["docs/python.md sql 4"].text,
}
"""the query for a cut's sequence number, by what it goes by"""
_GTIDS = (f"{UUID}:1", f"{UUID}:1-3", f"{UUID}:1-7", f"{UUID}:1-9")
COMMITTED = [1_000_000 * second for second in (10, 20, 20, 30)]
"""when the source committed the last transaction of each cut, in microseconds since 1970"""
_A, _B = TableVersion("t/a", 1, "a", 1), TableVersion("t/b", 1, "b", 1)
_TABLES: tuple[dict[str, TableVersion], ...] = (
    {"t.a": _A},
    {"t.a": _A, "t.b": _B},
    {"t.a": TableVersion("t/a@2", 4, "a2", 7)},
    {"t.a": TableVersion("t/a@2", 5, "a2", 9), "t.c": _B},
)


def publish_cuts(control: Control) -> list[Cut]:
    """Publish four cuts: tables are created, changed, dropped. Return them as they are read."""
    control.claim()
    for position, (gtids, tables) in enumerate(zip(_GTIDS, _TABLES, strict=True), 1):
        source = {"file": "bin.1", "position": 4, "commit_time": COMMITTED[position - 1]}
        control.publish(Cut(position, gtids, "log", source, tables))
    return control.cuts()


def expected(cut: Cut) -> list[tuple[str, str, int]]:
    """Return what the query returns for a cut."""
    return [(name, table.path, table.version) for name, table in sorted(cut.tables.items())]
