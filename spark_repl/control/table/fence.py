"""Fence: a commit to the control table by who is its owner no more is refused.

Every commit that an owner makes carries a ``txn`` of its epoch, and a mark: the claim that it is
made under, with a digest of its rows. It is made on the version that was seen last, so that Delta's
conflict check refuses it when another one has claimed the target since. Whose the commits are that
came first, and whether one of them is ours, whose answer was lost, their marks tell. A former
owner's commits to tables are refused likewise, by ``write.table_commits``.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import CommitProperties, Transaction

from ...delta.log_replay import commits_after
from ...errors import FencedError, TakenFirstError, TargetError
from .owner import Owner, who

if TYPE_CHECKING:
    from ...delta.log_replay import Action

_APP = "spark_repl:owner"
_MARK = "spark_repl:row"


@dataclass(frozen=True)
class Fence:
    """What tells one owner's commits, by its ``epoch``; 0: nobody has claimed the target.
    ``claim``: differs from that of everybody else who may have counted to the same epoch."""

    epoch: int = 0
    claim: str = ""

    @classmethod
    def behind(cls, epoch: int) -> Fence:
        """The fence of who claims the target behind the owner of ``epoch``."""
        return cls(epoch + 1, uuid.uuid4().hex)

    def mark(self, content: str) -> str:
        """The mark of a commit with these rows."""
        return f"{self.claim}:{hashlib.sha256(content.encode()).hexdigest()}"

    def properties(self, mark: str) -> CommitProperties:
        """The properties of a commit that goes through only on the version that was seen last."""
        return CommitProperties(
            app_transactions=[Transaction(_APP, self.epoch, int(time.time() * 1000))],
            custom_metadata={_MARK: mark},
            max_commit_retries=0,
        )

    def marks_behind(
        self, path: str, version: int, upto: int, is_owner: Callable[[], bool]
    ) -> list[str] | None:
        """The marks of an owner's commits in (version, upto]; None when it is the owner no more:
        another one's is among them, or one is gone, as a successor removes them, and ``is_owner``
        says so too. Raises OSError, and TargetError where it is gone all the same."""
        try:
            marks = marks_of(commits_after(path, version, upto))
        except TargetError:
            if is_owner():
                raise
            return None
        return marks if all(mark.startswith(self.claim) for mark in marks) else None


def marks_of(commits: Iterable[Collection[Action]]) -> list[str]:
    """The marks of those of the commits that an owner has made."""
    owned = [c for c in commits if any(a.get("txn", {}).get("appId") == _APP for a in c)]
    infos = ([a["commitInfo"] for a in commit if "commitInfo" in a] for commit in owned)
    return [str(of_commit[0].get(_MARK)) if of_commit else "" for of_commit in infos]


def check_free(path: str, owner: Owner | None) -> None:
    """Raises FencedError, naming the owner, when it is or may be alive."""
    if owner is not None and not owner.is_dead:
        raise FencedError(
            f"another applier owns this target: pid {owner.pid} on host {owner.host},"
            f" since {owner.since}",
            file=path,
            hint="stop it first; if that host is gone for good, use --take-over",
        )


def other_channel(path: str, recorded: str, channel: str) -> TakenFirstError:
    """Two channels came to an empty target at one moment: ``recorded`` was first."""
    return TakenFirstError(
        f'the target belongs to the channel "{recorded}", not "{channel}"',
        file=path,
        hint=f'start it again: it goes beside; or write channel = "{recorded}", to go on with that',
    )


def beaten(
    error: FencedError, path: str, owner: tuple[int, Owner] | None, channel: str
) -> FencedError | TakenFirstError:
    """Somebody else's claim came first, in the same moment: the error, or that it is another
    channel's, beside which there is place."""
    recorded = owner[1].channel if owner else ""
    another = channel and recorded not in ("", channel)
    return other_channel(path, recorded, channel) if another else error


def taken_over(path: str, owner: tuple[int, Owner] | None) -> FencedError:
    """``owner``: who has it now, behind the epoch; None where nobody can tell."""
    return FencedError(
        "another applier has taken this target over" + who(owner),
        file=path,
        hint="only one applier may work on a channel",
    )
