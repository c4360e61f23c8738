"""The errors of spark_repl: one root, each with the place in the log and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Self

BEGIN_AGAIN = "begin again: spark-repl reset --all --config F, then start again"
"""the end of hints: all tables of the channel are removed, and `run` copies them"""
OTHER_TARGET = "give all of its channels another target.path, and start them"
"""the end of hints about a table that several channels feed, which none of them resets alone"""
ALL_SHARDS = f"{BEGIN_AGAIN} (if several channels feed the table: {OTHER_TARGET})"
"""the end of hints about a table that many tables of the source are in"""


def reset_table(name: str = "DB.TABLE") -> str:
    """Return the end of hints after which the table waits for a copy, made by other rules."""
    return f"spark-repl reset --table {name} --config F, then start again"


class SparkReplError(Exception):
    """What went wrong, where (file, position, GTID, table), and what to do next (``hint``).

    ``number`` is MySQL's client error code where MySQL has one.
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
        """Fill in the parts of the place that the error does not have. Return self, to be
        raised."""
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
    """The binary log can't be read: not a binlog, damaged, cut, missing, of another history."""


class DecodeError(LogError):
    """An event or a value that can't be decoded without losing something."""

    row: int | None = None
    """which of the rows that were decoded it is about, where that is known"""
    is_of_cascade = False
    """whether it is about what foreign keys carry on to other tables"""

    def of_row(self, row: int) -> DecodeError:
        self.row = row
        return self


class StatementError(SparkReplError):
    """A logged statement or transaction kind that this version does not apply."""


class SettingError(StatementError):
    """A statement whose outcome the target's settings have no place for (zero_dates, partition_by,
    a policy): a copy of the table has none either."""


class StaleCopyError(StatementError):
    """A statement has changed a table while its copy was read: the applier goes on without it."""


class Unconvertible(StatementError):
    """A column's change of type whose outcome for its values the log doesn't tell."""


class UnknownZone(Unconvertible):
    """One whose outcome depends on a session's time zone that is not known: no value is shown."""


class SchemaError(SparkReplError):
    """The definition of a table in the log and the Delta table do not fit."""


class RowError(SparkReplError):
    """A row change that does not fit the target: 1032 (missing row) or 1062 (duplicate key)."""


class SourceError(SparkReplError):
    """The source refuses, or what it sends or is set to can't be used."""


class SourceLostError(SourceError):
    """The source can't be reached, or the connection broke: worth trying again."""


class PurgedError(SourceError):
    """The source no longer has what is needed: a new copy helps (``on_purged``)."""


class NoTableError(SourceError):
    """The source has no table of that name, or not any more; ``executed``: when it was asked."""

    executed = ""

    def as_of(self, executed: object) -> NoTableError:
        self.executed = str(executed)
        return self


class ArchiveUnreadableError(SparkReplError):
    """The store with the relay log's archive does not answer now: a retry may cure that."""


class FormatError(SparkReplError):
    """Something of ours on disk was written by a later version, in a format unknown to this one."""


class HistoryError(SparkReplError):
    """The log does not continue what the target has: a gap, another source, a RESET."""


class TargetError(SparkReplError):
    """A target table was changed, restored or removed by somebody else, or can't be written."""


class ChangedTableError(TargetError):
    """A statement has changed a table while it was copied: what was begun is another table."""


class OtherChannelError(TargetError):
    """Another channel of the target feeds a table of that name."""


class TakenFirstError(TargetError):
    """Another channel came to the empty target at the same moment, and has it as the first."""


class GivenUpError(TargetError):
    """A temporary error that came once more than it is tried again; its number is that error's."""

    workers: tuple[int, ...] = ()
    """whose transactions failed, from 0"""


class QuarantineError(SparkReplError):
    """What stands in quarantine can't be followed any further, or has outgrown its bounds."""


class CommitOrderError(SparkReplError):
    """3030: an earlier group failed, so this one was not committed."""


class FencedError(SparkReplError):
    """Another applier owns this target."""


class FormerOwnerError(SparkReplError):
    """A commit of an applier that owned the target before has landed late, with rows that the log
    has: what the tables hold is to be read again, nothing is wrong."""


class ConcurrentChangeError(TargetError):
    """Somebody else's commit touched the files that ours removes: plan anew on a fresh snapshot."""


class JvmEndedError(SparkReplError):
    """Spark's JVM, that this process had started or was started by, is gone."""


class ConfigError(SparkReplError):
    """Bad usage or configuration; the command line exits with 2."""

    faults: tuple[str, ...] = ()
    """each fault of a configuration, where there may be several"""


class SecretError(ConfigError):
    """A password, key or certificate of the account can't be read: where it is being replaced, it
    may be there a moment later."""


class SetupError(SparkReplError):
    """Something that has to be installed is missing: Java, the Delta jars, the right pyspark."""


class DemoError(SparkReplError):
    """The demo found something that must never be."""


class Signal(Exception):
    """No error: what ends work that is under way, and is met by who began it. Its text says why."""


class Stopped(Signal):
    """stop() came while something was waited for."""


class StoppedBetweenGroups(Signal):
    """A batch of the stream ends between two groups, because stop() came."""


class Withdrawn(Signal):
    """A part of a group fits, and is not committed because another one doesn't."""


class NotComputed(Signal):
    """What of an expression is not computed here."""


class RowsRefused(Signal):
    """Why rows that were read can't be brought into their table."""


class RowsOutdated(RowsRefused):
    """Why not as they are; rows that are read anew may be."""


class RowsFailed(Signal):
    """An error that came up while rows were read or brought in: no reason to copy their table."""


_EXTRAS = {"pyspark": "spark", "py4j": "spark"}
NEEDED_SPARK = "pyspark 4.0 or newer, below 5"


@contextmanager
def about_table(name: str) -> Iterator[None]:
    """Give errors of the body the table's name, if they have none yet."""
    try:
        yield
    except SparkReplError as error:
        error.at(table=name)
        raise


@contextmanager
def extra_named() -> Iterator[None]:
    """Raise SetupError for a package that an extra of ours would install, if it is missing, or if
    its version lacks what the body imports."""
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
    """Return what an environment lacks: the package, or another version of it."""
    if find_spec(package) is None:
        return f"the Python package {package} is not installed"
    try:
        installed = version(package)
    except PackageNotFoundError:  # a distribution of Spark may have no metadata
        installed = str(getattr(sys.modules.get(package), "__version__", "without a version"))
    return f"{package} {installed} is installed ({error}); spark_repl needs {NEEDED_SPARK}"
