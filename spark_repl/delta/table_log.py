"""What the writers ask of a table's Delta log; answered by ``delta_log`` (Delta's own transaction,
for the direct writer) and by ``public_log`` (public APIs alone, for MERGE on other runtimes)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import FencedError
from ..runtime.object_store import is_remote
from .log_replay import commit_path
from .spark_names import quoted
from .storage import is_file, walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .log_replay import Action
    from .log_state import LogState
    from .stamp import Stamp

ALONE = ("spark.databricks.delta.maxCommitAttempts", "0")
"""A session's setting: a commit is tried on one version only. Left to try again, Delta would let it
land over somebody else's INSERT, whose keys nobody has looked up."""

_FILES = "spark_repl_files"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def fenced(table: str, folder: str | None = None) -> FencedError:
    """Return the error for a table to which another applier has committed. ``table``: its name, ""
    where only its folder is known."""
    return FencedError(
        "another applier has committed to this table",
        table=table or None,
        file=folder,
        hint="only one applier may work on a channel: stop the other one",
    )


@dataclass(frozen=True)
class Snapshot:
    """One version of one table."""

    folder: str
    version: int
    metadata_id: str
    schema_string: str
    configuration: dict[str, str]
    java: Any = field(repr=False, compare=False)
    """Delta's own object, where there is one"""
    features: frozenset[str] = frozenset()
    partition_columns: tuple[str, ...] = ()
    state: LogState | None = field(default=None, repr=False, compare=False)
    """what ``own_log`` has read of the version"""

    def has(self, property_name: str) -> bool:
        """Whether a property is true."""
        return self.configuration.get(property_name, "").lower() == "true"


@dataclass(frozen=True)
class NewTable:
    """A table's metadata. ``partition_columns``: names as in the schema."""

    schema_string: str
    configuration: dict[str, str]
    partition_columns: tuple[str, ...] = ()


class TableLog(ABC):
    """Opens snapshots of tables and commits to them. One per Spark session. ``folder`` is a table's
    place, ``app`` the appId of a ``txn`` action."""

    direct: bool
    """whether actions of our own making can be committed"""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @abstractmethod
    def snapshot(self, folder: str, version: int | None = None) -> Snapshot | None:
        """The newest version of the table at ``folder``, or that one; None when there is no
        table."""

    @abstractmethod
    def version(self, folder: str) -> int:
        """The newest version's number, as cheaply as the log allows; -1 when there is no table."""

    @staticmethod
    def is_newest(snapshot: Snapshot) -> bool:
        """Whether nobody has committed behind the snapshot, and its own commit is there still: two
        names are asked for, where listing a log takes the longer the older it is."""
        version = snapshot.version
        return is_file(commit_path(snapshot.folder, version)) and not is_file(
            commit_path(snapshot.folder, version + 1)
        )

    @abstractmethod
    def last_txn(self, snapshot: Snapshot, app: str) -> int | None:
        """The version of the last ``txn`` action of ``app``; None when it never committed."""

    @abstractmethod
    def advance(self, previous: Snapshot, version: int) -> Snapshot:
        """The snapshot of ``version``, a commit of ours on ``previous`` that changes no
        metadata; others may have committed behind it."""

    def altered(self, previous: Snapshot, version: int) -> Snapshot:
        """The snapshot of ``version``, a commit of ours on ``previous``, with its own metadata."""
        snapshot = self.snapshot(previous.folder, version)
        assert snapshot is not None
        return snapshot

    @abstractmethod
    def files(self, snapshot: Snapshot) -> dict[str, Action]:
        """The ``add`` actions that are live in a snapshot, by path."""

    @abstractmethod
    def create(self, folder: str, new: NewTable, stamp: Stamp) -> None:
        """Version 0: protocol, metadata and position in one commit."""

    @abstractmethod
    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        """Commits data and position; returns the version.

        Raises FencedError when another applier committed meanwhile, ConcurrentChangeError when a
        file that we remove or mark is gone.
        """

    @abstractmethod
    def alter(self, planned: Snapshot, new: NewTable, actions: list[Action], stamp: Stamp) -> int:
        """Commits other columns, or properties, with what happens to files and with the position;
        returns the version. Raises as ``commit``."""

    @abstractmethod
    def rewrite(self, planned: Snapshot, actions: list[Action], app: str) -> int:
        """Commits other files with the same rows; returns the version. Raises as ``commit``."""

    @abstractmethod
    def set_properties(self, planned: Snapshot, properties: Mapping[str, str], app: str) -> int:
        """Commits properties, each as ALTER TABLE SET TBLPROPERTIES does, all else as it was;
        returns the version. Raises as ``commit``."""

    @abstractmethod
    def checkpoint(self, snapshot: Snapshot) -> None:
        """Has Delta write a checkpoint, a Spark job, and nothing else."""

    def vacuum(self, folder: str, spared: Collection[str] = ()) -> None:
        """Removes files that no version within the table's retention needs, but for those that are
        ``spared`` (relative paths). They are listed in as many tasks as there are cores: Spark's
        default of 10,000 takes a third of a minute."""
        session = self._spark.newSession()
        session.conf.set(_LISTING, str(self._spark.sparkContext.defaultParallelism))
        inventory = ""
        if spared:
            session.createDataFrame(_inventory(folder, spared)).createOrReplaceTempView(_FILES)
            inventory = f" USING INVENTORY (SELECT * FROM {_FILES})"
        session.sql(f"VACUUM delta.{quoted(folder)}{inventory}")


def _inventory(folder: str, spared: Collection[str]) -> pa.Table:
    """The files below a table's folder that VACUUM may look at, by their whole names, as it wants
    to be told of them: what is hidden it leaves out itself. Folders on an object store, which are
    none, have no time."""
    base = folder if is_remote(folder) else f"file:{folder}"
    files = [(path, entry) for path, entry in walk(folder) if path not in spared]
    times = [int(entry.modified * 1000) for _, entry in files]
    return pa.table(
        {
            "path": [f"{base}/{path}" for path, _ in files],
            "length": pa.array([entry.size for _, entry in files], pa.int64()),
            "isDir": [False] * len(files),
            "modificationTime": pa.array(times, pa.int64()),
        }
    )
