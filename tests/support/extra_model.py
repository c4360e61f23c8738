"""What a table with all extra columns is left with, one change at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spark_repl.errors import SettingError
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import run, stopped

T = Table("a", (("id", "int"), ("n", "int"), ("v", "varchar(9)")))
EXTRA = ("source_table", "gtid", "commit_time", "operation", "deleted")
_EPOCH = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
Row = tuple[Any, ...]
FIRST = [(1, 1, "x"), (2, 5, "y"), (3, None, "z")]


def begun(folder: Path) -> LogWriter:
    """A log in which t.a is made and has the rows FIRST: three transactions."""
    made = LogWriter(folder)
    made.ddl("CREATE DATABASE t")
    made.ddl(T.create)
    made.transaction(insert(T, *FIRST))
    return made


def carried_on(
    folder: Path, parent: Table = T, rows: Sequence[tuple[Any, ...]] = FIRST
) -> LogWriter:
    """A log whose third transaction deletes the first of the ``rows`` of t.a, the ``parent``: a
    foreign key carries that on into t.c, unlogged."""
    log, child = LogWriter(folder), Table("c", (("id", "int"), ("v", "int")))
    log.ddl(parent.create)
    log.ddl(
        "CREATE TABLE t.c (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES t.a (id)"
        " ON DELETE CASCADE)"
    )
    log.transaction(insert(parent, *rows), insert(child, (1, 1), (2, 3)))
    log.transaction(delete(parent, rows[0]))
    return log


def refuse_each_other(
    log: LogWriter, folder: Path, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """A table that was made with one configuration is not gone on with by the other, in silence,
    whichever came first; with its own it is."""
    for number, (first, then) in enumerate([(one, other), (other, one)]):
        lake = folder / f"lake{number}"
        assert run(log.folder, lake, **first)
        error = stopped(log.folder, lake, **then)
        assert isinstance(error, SettingError) and "than the table was made with" in str(error)
        assert run(log.folder, lake, **first)


def rule(*extra: str, match: str = "t.a", **more: Any) -> dict[str, Any]:
    """A configuration with these columns, or all of them."""
    return {"tables": [{"match": match, "extra_columns": list(extra or EXTRA), **more}]}


def told(log: LogWriter, gno: int, operation: str, table: str = "t.a") -> Row:
    """The extra columns of a row whose last change the transaction ``gno`` made."""
    at = _EPOCH + timedelta(seconds=gno)
    return (table, f"{log.source}:{gno}", at, operation, operation in ("DELETE", "TRUNCATE"))


class OneByOne:
    """A table of ``T``'s columns, in ``log``'s next transaction. ``at``: by GTID set, its rows
    then."""

    def __init__(self, log: LogWriter, name: str = "a") -> None:
        self.log, self.table = log, Table(name, T.columns)
        self.rows: dict[int, tuple[Row, Row]] = {}
        self.at: dict[str, list[Row]] = {}

    def there(self) -> list[int]:
        """Those that the source has."""
        return [key for key, (_, extra) in self.rows.items() if not extra[-1]]

    def _put(self, row: Row, operation: str, *, gone: bool = False) -> None:
        extra = told(self.log, self.log.gno, operation, f"t.{self.table.name}")
        self.rows[row[0]] = row, (*extra[:-1], gone)

    def insert(self, row: Row) -> Change:
        self._put(row, "INSERT")
        return insert(self.table, row)

    def delete(self, key: int, *, partial: bool) -> Change:
        image = self.image(key)
        if key in self.there():
            self._put(image, "DELETE", gone=True)
        return delete(self.table, {0: key} if partial else image)

    def update(self, key: int, new: Row, *, partial: bool) -> Change:
        """A ``partial`` one leaves the last column as it was."""
        image, there = self.image(key), self.there()
        if key in there and (key == new[0] or new[0] not in there):
            if key != new[0]:
                self._put(image, "UPDATE", gone=True)
            self._put((*new[:2], image[2]) if partial else new, "UPDATE")
        if partial:
            return update(self.table, ({0: key}, {0: new[0], 1: new[1]}))
        return update(self.table, (image, new))

    def truncate(self) -> None:
        """What the log's last transaction was."""
        extra = told(self.log, self.log.gno - 1, "TRUNCATE", f"t.{self.table.name}")
        for key in self.there():
            self.rows[key] = self.rows[key][0], extra
        self.seen()

    def image(self, key: int) -> Row:
        """A before image: of a row that is not there one that was somewhere."""
        return self.rows[key][0] if key in self.there() else (key, 0, "none")

    def transaction(self, *changes: Change) -> None:
        self.log.transaction(*changes)
        self.seen()

    def seen(self) -> None:
        rows = sorted((*row, *extra) for row, extra in self.rows.values())
        last = self.log.gno - 1
        span = f"1-{last}" if last > 1 else "1"
        self.at[f"{self.log.source}:{span}"] = rows
