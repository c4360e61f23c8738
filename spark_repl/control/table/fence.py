"""Fence: refuses a commit to the control table by a process that is no longer its owner.

Every commit of an owner carries a ``txn`` of its epoch, and a mark: the claim, with a digest of its
rows. An owner commits on the version that it saw last, so its commit fails if another process has
claimed the target since. The marks then show whose commits came first, and whether one of them is
this process's, whose answer was lost. ``write.tables.table_commits`` refuses
a former owner's commits to tables likewise.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...delta.log.log_replay import commits_after
from ...errors import FencedError, TakenFirstError, TargetError
from .control_log import RowsCommit
from .owner import Owner, who

if TYPE_CHECKING:
    from ...delta.log.log_replay import Action

_APP = "spark_repl:owner"
_MARK = "spark_repl:row"


@dataclass(frozen=True)
class Fence:
    """The identity of one owner's commits. ``epoch``: 0 if the target is not claimed. ``claim``:
    distinguishes this owner from any other process that has reached the same epoch."""

    epoch: int = 0
    claim: str = ""

    @classmethod
    def after(cls, epoch: int) -> Fence:
        """Return the fence of a process that claims the target after the owner of ``epoch``."""
        return cls(epoch + 1, uuid.uuid4().hex)

    def mark(self, content: str) -> str:
        """Return the mark of a commit with these rows."""
        return f"{self.claim}:{hashlib.sha256(content.encode()).hexdigest()}"

    def commit(self, mark: str, *, replaces: bool = False, columns: bool = False) -> RowsCommit:
        """Return a commit by this owner, with its mark."""
        txn = {"appId": _APP, "version": self.epoch, "lastUpdated": int(time.time() * 1000)}
        return RowsCommit(txn, {_MARK: mark}, replaces, columns)

    def marks_after(
        self, path: str, version: int, upto: int, is_owner: Callable[[], bool]
    ) -> list[str] | None:
        """Return the marks of this owner's commits in (version, upto]. Return None if it no longer
        owns the target: a commit of another owner is among them, or a commit is missing, because a
        successor removes them, and ``is_owner`` confirms this. Raise OSError, and TargetError if a
        commit is missing although this process is the owner."""
        try:
            marks = marks_of(commits_after(path, version, upto))
        except TargetError:
            if is_owner():
                raise
            return None
        return marks if all(mark.startswith(self.claim) for mark in marks) else None


def marks_of(commits: Iterable[Collection[Action]]) -> list[str]:
    """Return the marks of those commits that an owner made."""
    owned = [c for c in commits if any(a.get("txn", {}).get("appId") == _APP for a in c)]
    infos = ([a["commitInfo"] for a in commit if "commitInfo" in a] for commit in owned)
    return [str(of_commit[0].get(_MARK)) if of_commit else "" for of_commit in infos]


_ELSEWHERE = "stop it first; if that host is gone for good, use --take-over"


def check_free(path: str, owner: Owner | None, hint: str = _ELSEWHERE) -> None:
    """Raise FencedError, with the owner's name, if the owner runs or may run. Its lease is not
    considered."""
    check_not_moved(path, owner)
    if owner is not None and not owner.is_dead:
        raise FencedError(
            f"another applier owns this target: pid {owner.pid} on host {owner.host},"
            f" since {owner.since}",
            file=path,
            hint=hint,
        )


def check_not_moved(path: str, owner: Owner | None) -> None:
    """Raise FencedError if the target was moved elsewhere by ``owner``."""
    if owner is not None and owner.moved_to:
        raise FencedError(
            f"this target was moved to {owner.moved_to}, at {owner.since}",
            file=path,
            hint=f'write target.path = "{owner.moved_to}"; to go on here instead, use --take-over',
        )


def check_stays(path: str, owner: Owner | None) -> None:
    """Raise FencedError if the target was moved elsewhere, or if a move of it has begun and its
    first channel has not been claimed since."""
    check_not_moved(path, owner)
    if owner is not None and owner.moving_to:
        raise FencedError(
            f"this target is being moved to {owner.moving_to}, since {owner.since}",
            file=path,
            hint="wait until the move has ended; if it was killed, call it again, or start the"
            " first channel's applier here",
        )


def other_channel(path: str, recorded: str, channel: str) -> TakenFirstError:
    """Return the error of a channel that lost the race for an empty target: ``recorded`` was
    first."""
    return TakenFirstError(
        f'the target belongs to the channel "{recorded}", not "{channel}"',
        file=path,
        hint=f'start it again: it goes beside; or write channel = "{recorded}", to go on with that',
    )


def beaten(
    error: FencedError, path: str, owner: tuple[int, Owner] | None, channel: str
) -> FencedError | TakenFirstError:
    """Return the error for a process that lost a claim to another one: the fence's own error, or,
    if the winner is another channel, that it may share the target."""
    recorded = owner[1].channel if owner else ""
    another = channel and recorded not in ("", channel)
    return other_channel(path, recorded, channel) if another else error


def taken_over(path: str, owner: tuple[int, Owner] | None) -> FencedError:
    """Return the error after a takeover. ``owner``: the epoch and the current owner; None if
    unknown."""
    return FencedError(
        "another applier has taken this target over" + who(owner),
        file=path,
        hint="only one applier may work on a channel",
    )
