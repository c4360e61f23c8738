"""Errors of spark_repl: one root class. An error has a place in the log, and a hint.

All rooms raise these classes, and no other module defines a class that can be raised
(tests/unit/house/test_shape.py). A message describes what happened to what; ``hint`` is the next
step, as one command where there is one. A caller that knows more of the place adds it with ``at``,
which replaces no part of the place that the error has already. Errors survive pickling, because
workers raise them too. The command line prints an error and its hint, and ends with 2 for
ConfigError and SetupError, and with 1 for the others. ``Signal`` and its subclasses are no errors:
they end work in progress, and the code that began the work catches them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Self

BEGIN_AGAIN = "begin again: spark-repl reset --all --config F, then start again"
"""end of hints: the command removes all tables of the channel, and `run` copies them again"""
OTHER_TARGET = "give all of its channels another target.path, and start them"
"""end of hints about a table that several channels feed: no single channel can reset it"""
ALL_SHARDS = f"{BEGIN_AGAIN} (if several channels feed the table: {OTHER_TARGET})"
"""end of hints about a table that holds many tables of the source"""


def reset_table(name: str = "DB.TABLE") -> str:
    """Return the end of a hint: the command that makes the table wait for a copy by the new
    rules."""
    return f"spark-repl reset --table {name} --config F, then start again"


class SparkReplError(Exception):
    """An error with its location (file, position, GTID, table), and the next step (``hint``).

    ``number`` is MySQL's error code, or 0 if MySQL has none.
    """

    number = 0

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        position: object | None = None,
        gtid: str | None = None,
        table: str | None = None,
        hint: str | None = None,
        number: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.position = None if position is None else str(position)
        self.gtid = gtid
        self.table = table
        self.hint = hint
        if number is not None:
            self.number = number

    def at(
        self,
        *,
        file: str | None = None,
        position: object | None = None,
        gtid: str | None = None,
        table: str | None = None,
    ) -> Self:
        """Fill in the missing parts of the location. Return the error itself, so that the caller
        can raise it."""
        place = {"file": file, "position": position, "gtid": gtid, "table": table}
        for name, value in place.items():
            if getattr(self, name) is None and value is not None:
                setattr(self, name, str(value))
        return self

    def __str__(self) -> str:
        place = [
            f"{name} {value}"
            for name in ("file", "position", "gtid", "table")
            if (value := getattr(self, name)) is not None
        ]
        code = f" ({self.number})" if self.number else ""
        return self.message + code + (f" [{', '.join(place)}]" if place else "")

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross the process boundary between a Spark worker and the driver.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(cls: type[SparkReplError], message: str, state: dict[str, Any]) -> SparkReplError:
    error = cls(message)
    error.__dict__.update(state)
    return error


class LogError(SparkReplError):
    """The binary log can't be read: it is not a binlog, damaged, truncated, missing, or of another
    history."""


class DecodeError(LogError):
    """An event or a value can't be decoded without loss."""

    row: int | None = None
    """number of the faulty row among the decoded rows; None if it is not known"""
    is_of_cascade = False
    """whether a cascade of a foreign key to another table caused the error"""

    def of_row(self, row: int) -> DecodeError:
        self.row = row
        return self


class StatementError(SparkReplError):
    """This version does not apply a logged statement or kind of transaction."""


class SettingError(StatementError):
    """The target's settings do not allow the outcome of a statement (zero_dates, partition_by, a
    policy). They would not allow a copy of the table either."""


class StaleCopyError(StatementError):
    """A statement changed a table while its copy was read. The applier continues without the
    copy."""


class Unconvertible(StatementError):
    """A statement changes a column's type, and the log does not determine the column's new
    values."""


class UnknownZone(Unconvertible):
    """A change of type whose outcome depends on the session's unknown time zone. The message shows
    no value."""


class SchemaError(SparkReplError):
    """A table's definition in the log does not fit the Delta table."""


class RowError(SparkReplError):
    """A row change does not fit the target: 1032 (missing row) or 1062 (duplicate key)."""


class SourceError(SparkReplError):
    """The source refuses, or its answers or settings can't be used."""


class SourceLostError(SourceError):
    """The source can't be reached, or the connection broke. The receiver retries."""


class PurgedError(SourceError):
    """The source has purged the log that is needed. A new copy helps (``on_purged``)."""


class NoTableError(SourceError):
    """The source does not have a table of that name, or no longer has it. ``executed``: the
    source's GTID set at the time of the query."""

    executed = ""

    def as_of(self, executed: object) -> NoTableError:
        self.executed = str(executed)
        return self


class ArchiveUnreadableError(SparkReplError):
    """The store with the relay log's archive does not answer; a later attempt may succeed."""


class FormatError(SparkReplError):
    """A later version wrote a file or a row in a format that this version does not know."""


class HistoryError(SparkReplError):
    """The log does not continue what the target has: a gap, another source, a RESET."""


class TargetError(SparkReplError):
    """Another writer changed, restored or removed a target table, or it can't be written."""


class ChangedTableError(TargetError):
    """A statement changed a table during its copy, so the copied rows do not fit the table's
    definition."""


class OtherChannelError(TargetError):
    """Another channel of the target feeds a table of that name."""


class TakenFirstError(TargetError):
    """Another channel started on the empty target at the same moment, and was first."""


class GivenUpError(TargetError):
    """A temporary error occurred more often than ``transaction_retries`` allows. It has the
    temporary error's number."""

    workers: tuple[int, ...] = ()
    """numbers of the workers whose transactions failed, from 0"""


class QuarantineError(SparkReplError):
    """The kept changes of tables in quarantine exceed their bounds, or no further changes can be
    kept."""


class CommitOrderError(SparkReplError):
    """An earlier group failed, so this group was not committed (MySQL's 3030)."""


class FencedError(SparkReplError):
    """Another applier owns this target."""


class FormerOwnerError(SparkReplError):
    """A former owner's commit appeared late, with rows of the log. No data is wrong: the applier
    reads the tables again."""


class ConcurrentChangeError(TargetError):
    """Another writer's commit changed files that our commit removes. The group is planned again on
    a new snapshot."""


class JvmEndedError(SparkReplError):
    """Spark has ended: the JVM that this process started, or that started this process, or the
    session on a Spark Connect server."""


class ConfigError(SparkReplError):
    """An error of usage or configuration. The command line exits with 2."""

    faults: tuple[str, ...] = ()
    """all faults of a configuration"""


class SecretError(ConfigError):
    """A password, key or certificate of the account can't be read. If it is just being replaced, a
    retry may succeed."""


class CatalogError(SparkReplError):
    """A catalog does not answer, or refuses a request. It never stops an applier."""


class SetupError(SparkReplError):
    """Something is not installed: Java, the Delta jars, or a suitable version of pyspark."""


class DemoError(SparkReplError):
    """The demo found a wrong result, or an earlier demo in its folder."""


class Signal(Exception):
    """Not an error, but a signal that ends work in progress. The code that began the work catches
    it. Its text has the reason."""


class Stopped(Signal):
    """``stop()`` was called during a wait."""


class StoppedBetweenGroups(Signal):
    """``stop()`` ends a batch of the stream between two groups."""


class Withdrawn(Signal):
    """A part of a group fits, but is not committed, because another part does not fit."""


class NotComputed(Signal):
    """spark_repl does not compute a part of an expression."""


class RowsRefused(Signal):
    """Rows that were read for a repair can't be written to their table; the text has the reason."""


class RowsOutdated(RowsRefused):
    """The rows that were read for a repair are outdated. A new reading may succeed."""


class RowsFailed(Signal):
    """An error occurred while rows were read or written for a repair. It is not a reason to copy
    the table."""


_EXTRAS = {"pyspark": "spark", "py4j": "spark"}
NEEDED_SPARK = "pyspark 4.0 or newer, below 5"


@contextmanager
def about_table(name: str) -> Iterator[None]:
    """Add the table's name to errors of the body that do not name a table."""
    try:
        yield
    except SparkReplError as error:
        error.at(table=name)
        raise


@contextmanager
def extra_named() -> Iterator[None]:
    """Raise SetupError if the body's import fails for a package of one of spark_repl's extras: it
    is missing, or its version lacks the imported name."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRAS:
            raise
        raise SetupError(
            _missing(package, error),
            hint=f"pip install 'spark-repl[{_EXTRAS[package]}]', or use an environment that has"
            " Spark 4",
        ) from error


def _missing(package: str, error: ImportError) -> str:
    """Return a text that says which package, or which version of it, the environment lacks."""
    if find_spec(package) is None:
        return f"the Python package {package} is not installed"
    try:
        installed = version(package)
    except PackageNotFoundError:  # a distribution of Spark may have no metadata
        installed = str(getattr(sys.modules.get(package), "__version__", "without a version"))
    return f"{package} {installed} is installed ({error}); spark_repl needs {NEEDED_SPARK}"
