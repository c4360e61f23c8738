"""Spark-native MySQL replication applier: binary log in, Delta tables out, in commit order.

- ``Replica`` applies a log to a target.
- ``cut`` reads all tables of a target at one GTID set of the source, ``joint_cut`` those of several
  channels.
- ``wait_for`` waits until a cut holds a GTID set.
- ``history_at`` reads a table of mode history at an earlier moment; ``history_condition`` returns
  the SQL condition for it.
- ``MySQLRelaySource`` is Spark's streaming source of transactions.
- ``read_changes`` returns a log's row changes as Arrow batches, without Spark.

Each name is imported when it is first used, so ``spark_repl.binlog`` and ``read_changes`` need no
Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .apply.start.replica import Replica
    from .apply.stream.spark_source import MySQLRelaySource
    from .config import Config
    from .control.cuts.cut_reader import cut
    from .control.cuts.cut_wait import wait_for
    from .control.cuts.history_views import history_at, history_condition
    from .control.cuts.joint_cut import joint_cut
    from .decode.read_changes import read_changes
    from .runtime.spark_session import build_session

__version__ = "0.2.0"
__all__ = [
    "Config",
    "MySQLRelaySource",
    "Replica",
    "build_session",
    "cut",
    "history_at",
    "history_condition",
    "joint_cut",
    "read_changes",
    "wait_for",
]

_HOME = {
    "Config": ".config",
    "MySQLRelaySource": ".apply.stream.spark_source",
    "Replica": ".apply.start.replica",
    "build_session": ".runtime.spark_session",
    "cut": ".control.cuts.cut_reader",
    "history_at": ".control.cuts.history_views",
    "history_condition": ".control.cuts.history_views",
    "joint_cut": ".control.cuts.joint_cut",
    "read_changes": ".decode.read_changes",
    "wait_for": ".control.cuts.cut_wait",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .errors import extra_named

    with extra_named():
        return getattr(import_module(_HOME[name], __name__), name)
