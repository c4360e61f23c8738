"""State of a table's log at one version, without files: protocol, metadata, transactions, domains.

Delta protocol, section "Action Reconciliation". A state is read from the newest checkpoint and the
commits after it, and advanced commit by commit (``after``). ``add_actions`` has the live files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...errors import TargetError, reset_table
from ..store.storage import is_file, read
from . import log_checkpoints
from .log_replay import COMMIT, checksum_path, commit_path, each_commit_after, read_commit

if TYPE_CHECKING:
    from .log_checkpoints import Checkpoint

Action = dict[str, Any]

ROW_TRACKING = "delta.rowTracking"
"""domain that records the highest row id assigned"""
ENGINE_NAME = "spark_repl"
"""name of this engine in a table's history"""
_TIMESTAMPS = "delta.enableInCommitTimestamps"
_CHECKSUM = "inCommitTimestampOpt"


@dataclass(frozen=True)
class LiveTotals:
    """Number and bytes of a version's live files, their deletion vectors, and their deleted
    rows."""

    files: int = 0
    size_bytes: int = 0
    vectors: int = 0
    deleted_rows: int = 0

    def after(self, actions: Iterable[Action]) -> LiveTotals | None:
        """Return the totals after a commit with these ``actions``; None if a ``remove`` lacks its
        file's size, which other writers may omit."""
        totals = [self.files, self.size_bytes, self.vectors, self.deleted_rows]
        for action in actions:
            sign = 1 if "add" in action else -1 if "remove" in action else 0
            if sign:
                file = action["add" if sign > 0 else "remove"]
                if file.get("size") is None:
                    return None
                deleted = (file.get("deletionVector") or {}).get("cardinality", 0)
                for at, by in enumerate((1, file["size"], bool(deleted), deleted)):
                    totals[at] += sign * by
        return LiveTotals(*totals)


def totals_of(files: Iterable[Action]) -> LiveTotals:
    """Return the totals of live files, given as ``add`` actions."""
    return LiveTotals().after({"add": add} for add in files) or LiveTotals()


@dataclass(frozen=True)
class LogState:
    """The state of a table at ``version``. ``timestamp_ms``: its in-commit timestamp in
    milliseconds; None if the table has none, or it is unknown."""

    version: int
    protocol: Action
    metadata: Action
    txns: Mapping[str, Action] = field(default_factory=dict)
    """the last ``txn`` action of each appId"""
    domains: Mapping[str, Action] = field(default_factory=dict)
    """the ``domainMetadata`` action of each domain that was not removed"""
    timestamp_ms: int | None = None
    totals: LiveTotals | None = field(default=None, compare=False)
    """None: unknown"""
    txn_id: str | None = field(default=None, compare=False)
    """the id of the version's commit, if it is one of ours and was read"""

    @property
    def has_timestamps(self) -> bool:
        """Return whether commits have in-commit timestamps."""
        return str(self.metadata["configuration"].get(_TIMESTAMPS, "")).lower() == "true"

    @property
    def last_row_id(self) -> int:
        """Return the highest row id assigned so far; -1 if none was assigned."""
        domain = self.domains.get(ROW_TRACKING)
        return int(json.loads(domain["configuration"])["rowIdHighWaterMark"]) if domain else -1

    def after(self, actions: Iterable[Action]) -> LogState:
        """Return the state after the commit of the next version, which has these ``actions``."""
        actions = list(actions)
        changed: dict[str, Any] = {"version": self.version + 1}
        changed |= {"txn_id": None, "timestamp_ms": None}
        txns, domains = dict(self.txns), dict(self.domains)
        for action in actions:
            if "txn" in action:
                txns[action["txn"]["appId"]] = action["txn"]
            elif "metaData" in action:
                changed["metadata"] = action["metaData"]
            elif "protocol" in action:
                changed["protocol"] = action["protocol"]
            elif "domainMetadata" in action:
                _keep(domains, action["domainMetadata"])
            elif "commitInfo" in action:
                info = action["commitInfo"]
                changed["timestamp_ms"] = info.get("inCommitTimestamp")
                is_own = str(info.get("engineInfo", "")).startswith(f"{ENGINE_NAME}/")
                changed["txn_id"] = info.get("txnId") if is_own else None
        # Other writers may add a live file again, as ANALYZE and a backfill of row ids do.
        totals = self.totals if changed["txn_id"] and not _only_describes(actions) else None
        changed["totals"] = totals.after(actions) if totals else None
        return replace(self, txns=txns, domains=domains, **changed)


def _only_describes(actions: Iterable[Action]) -> bool:
    """Return whether a commit of ours only gives live files other statistics: it adds them again,
    without a ``remove``, and would count them twice."""
    adds = [action["add"] for action in actions if "add" in action]
    if not adds or any("remove" in action for action in actions):
        return False
    return not adds[0].get("dataChange", True)


def _keep(domains: dict[str, Action], action: Action) -> None:
    domains.pop(action["domain"], None)
    if not action.get("removed"):
        domains[action["domain"]] = action


@dataclass(frozen=True)
class LogSegment:
    """The part of a log that determines one version: the newest complete checkpoint up to it, and
    the commits after that."""

    folder: str
    checkpoint: Checkpoint | None
    version: int

    @classmethod
    def of(cls, folder: str, version: int | None = None) -> LogSegment | None:
        """Return the segment of ``version`` (None: the newest); None if there is no table. Raise
        OSError, and TargetError if a version is missing."""
        base, listed = log_checkpoints.newest_and_names(folder, version)
        upto = _newest_of(folder, base, listed) if version is None else version
        return cls(folder, base, upto) if upto >= 0 else None

    def commits(self) -> Iterator[list[Action]]:
        """Read the actions of each commit after the checkpoint. Raise as ``each_commit_after``."""
        base = self.checkpoint.version if self.checkpoint else -1
        return each_commit_after(self.folder, base, self.version)

    def state(self, commits: Iterable[Iterable[Action]]) -> LogState:
        """Return the state after the segment's ``commits``. Raise OSError and TargetError."""
        state = _at(self.folder, self.checkpoint)
        for actions in commits:
            state = state.after(actions)
        if not state.metadata or not state.protocol:
            problem = f"version {self.version} of the table's log has no metadata"
            raise TargetError(problem, file=self.folder, hint=reset_table())
        return state


def load(folder: str, version: int | None = None) -> LogState | None:
    """Return the state of the table at ``folder`` at ``version`` (None: the newest). Return None if
    there is no table. Raise OSError, and TargetError if the log does not reach back."""
    segment = LogSegment.of(folder, version)
    return segment.state(segment.commits()) if segment else None


def advance(folder: str, state: LogState, version: int) -> LogState:
    """Return the state at a later ``version``. Raise TargetError if a commit is missing."""
    for actions in each_commit_after(folder, state.version, version):
        state = state.after(actions)
    return state


def newest_version(folder: str) -> int:
    """Return the newest version's number, -1 if there is no table. Raise OSError, and TargetError
    if a version is missing."""
    return _newest_of(folder, *log_checkpoints.newest_and_names(folder))


def _newest_of(folder: str, base: Checkpoint | None, listed: list[str]) -> int:
    """Return the newest version of a log. ``base``: its newest whole checkpoint. ``listed``: the
    names of its files, from that checkpoint on.

    Raise TargetError if a version between the two is missing, as power failures leave it: a new
    commit in its place would be read together with those after it. Raise TargetError also if only a
    damaged checkpoint has the newest version: the table would be an older one.
    """
    at = base.version if base else -1
    commits = {int(name[:20]) for name in listed if COMMIT.fullmatch(name)}
    newest = max(at, *commits) if commits else at
    # A listing during two commits may have the second one alone.
    unlisted = sorted(set(range(at + 1, newest + 1)) - commits)
    gap = next((v for v in unlisted if not is_file(commit_path(folder, v))), None)
    if gap is not None:
        raise TargetError(
            f"version {gap} of the table's log is missing, and version {newest} is there",
            file=folder,
            hint="put the table's folder back from a backup, or copy the table again",
        )
    damaged = max((v for v in map(log_checkpoints.version_of, listed) if v is not None), default=-1)
    # A listing may lack a commit written meanwhile, and show its checkpoint.
    if damaged > newest and not is_file(commit_path(folder, damaged)):
        raise TargetError(
            f"the checkpoint of version {damaged} of the table's log is not whole, and the commit"
            " is gone",
            file=folder,
            hint=f"bring the checkpoint back from a backup, or {reset_table()}",
        )
    return newest


def _at(folder: str, base: Checkpoint | None) -> LogState:
    """Return the state of a checkpoint; without one, the state before version 0."""
    state = LogState(-1, {}, {})
    if base:
        state = replace(state.after(base.state()), version=base.version)
        if state.has_timestamps:
            state = replace(state, timestamp_ms=_timestamp_ms(folder, base.version))
    return state


def _timestamp_ms(folder: str, version: int) -> int | None:
    """Return the in-commit timestamp of a version in milliseconds, which no checkpoint has. Return
    None if its commit was removed, and its checksum as well. Raise OSError or TargetError."""
    actions = read_commit(folder, version)
    if actions is not None:
        infos = (action["commitInfo"] for action in actions if "commitInfo" in action)
        return next((info.get("inCommitTimestamp") for info in infos), None)
    with suppress(FileNotFoundError, ValueError, AttributeError):
        timestamp_ms: int | None = json.loads(read(checksum_path(folder, version))).get(_CHECKSUM)
        return timestamp_ms
    return None
