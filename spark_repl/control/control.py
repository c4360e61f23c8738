"""The control table, ``<target>/_repl/control``: owner, histories, tables and cuts.

A small Delta table of its own, written through delta-rs: a commit takes 3 ms where a Spark job
takes 200, and the status needs no Spark at all. An applier that slept through a takeover can't
publish anything (``fence``). A commit that failed is looked for first: it may have landed, somebody
may have tidied the table up, or storage has failed.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from .. import formats
from ..delta import storage
from ..delta.checkpoint import is_newest, past_lost
from ..delta.delta_rs import NO_HOOK, delta_rs, meaning
from ..errors import ConcurrentChangeError, FencedError, SparkReplError, TargetError
from .cut import Cut
from .fence import Fence, beaten, check_free, other_channel, taken_over
from .held_back import HeldBack
from .held_rows import HeldRows, Row
from .layout import Layout
from .owner import Owner, held_if_done, let_go, who
from .retention import needed
from .row_schema import SCHEMA, rows_table, said
from .row_times import RowTimes
from .superseded import current
from .tidying import checkpoint_if_due, tidy

if TYPE_CHECKING:
    from .held_rows import Place
    from .retention import Retention
    from .settle import Settle

_FORMAT, CHANNELS_FORMAT, SHARED_FORMAT = 1, 2, 3
"""the number of the format of the rows' ``detail``; that of those that say there are channels, and
that channels share a table"""
_PRUNE_EVERY, _BESIDE_MOST = 100, 100
_READ, _WRITE = "read the control table", "write the control table"
_HINT = "give the folder that apply or run was given as its target"


class Control:
    """Reads the control table; writes it after ``claim``. Safe to call from several threads.

    ``channel``: the one that the target has to belong to; "": any. ``append``: delta-rs' own."""

    def __init__(
        self, path: str, channel: str = "", *, append: Callable[..., None] = write_deltalake
    ) -> None:
        self.path, self.channel, self._write_rows = path, channel, append
        self._options = storage.options(path)
        self.took_over = False  # from an owner that may be alive
        self._fence, self._times = Fence(), RowTimes()
        self._handle: DeltaTable | None = None
        self._read, self._held_back = HeldRows(), HeldBack()
        self._pruned, self._lock = 0, threading.Lock()  # at a version

    @property
    def epoch(self) -> int:
        """The epoch of the owner that this process is; 0: it has claimed nothing."""
        return self._fence.epoch

    @classmethod
    def existing(cls, target: str) -> Control:
        """The control table of a target that an applier has worked on. Raises TargetError for any
        other folder."""
        control = cls(Layout(target).control)
        if not control.exists():
            raise TargetError(
                "nothing has been applied to this target yet", file=target, hint=_HINT
            )
        return control

    def exists(self) -> bool:
        with delta_rs(_READ, self.path):
            return DeltaTable.is_deltatable(self.path, storage_options=self._options)

    def _open(self) -> DeltaTable:
        with delta_rs(_READ, self.path):
            return past_lost(
                self.path, lambda: DeltaTable(self.path, storage_options=self._options)
            )

    def rows(self, kind: str) -> list[Row]:
        """All rows of one kind, oldest first. Empty when there is no control table yet. Raises
        OSError, which may pass, TargetError, and FormatError when any row was written by a version
        whose rows this one doesn't know."""
        return self._held().rows(kind)

    def _held(self) -> HeldRows:
        """All rows of the newest version; a start asks for every kind, and each row is a file."""
        held = self._read
        with delta_rs(_READ, self.path):
            if is_newest(self.path, held.version):
                return held
        try:
            table = self._open()
        except TableNotFoundError:
            return HeldRows()
        held = HeldRows.of(table.version(), self._rows_of(table), SHARED_FORMAT, self.path)
        if held.version > self._read.version:  # else another thread knows more by now
            self._read = held
        return held

    def _rows_of(self, table: DeltaTable) -> pa.Table:
        """The table's rows, through Arrow's own file system: delta-rs' is a Python object, and a
        thread of Arrow's that lets it go when the interpreter has ended aborts the process."""
        with delta_rs(_READ, self.path):
            return table.to_pyarrow_table(filesystem=storage.below(self.path))

    def owner(self) -> tuple[int, Owner] | None:
        rows = self.rows("owner")
        newest = max(rows, key=lambda row: (row["epoch"], row["at"]), default=None)
        return (newest["epoch"], Owner(**json.loads(newest["detail"]))) if newest else None

    def cuts(self) -> list[Cut]:
        """All cuts, in the order of ``cut_rows``."""
        return [Cut.of(row) for row in self.cut_rows()]

    def cut_rows(self, *, newest_first: bool = False) -> Iterator[Row]:
        """``HeldRows.cut_rows``: of two at one position an XA branch was ended by hand. To parse
        one takes longer than to read it."""
        return self._held().cut_rows(newest_first=newest_first)

    def cut_places(self) -> set[Place]:
        """``HeldRows.cut_places``."""
        return self._held().cut_places()

    def last_cut(self) -> Cut | None:
        """The newest cut; None: there is none."""
        return Cut.of(row) if (row := self._held().last_cut()) else None

    def cut_count(self) -> int:
        return self._held().cut_count

    def claim(self, *, take_over: bool = False) -> int:
        """Makes this process the owner; returns the new epoch.

        Raises FencedError, naming the first, when another one is or may be alive, TargetError when
        the target is another channel's.
        """
        storage.check_bucket(self.path)
        storage.make_folder(self.path)
        if not self.exists():
            try:
                with delta_rs("create the control table", self.path):
                    write_deltalake(
                        self.path, SCHEMA.empty_table(), mode="error",
                        storage_options=self._options,
                    )  # fmt: skip
            except (TargetError, OSError):
                if not self.exists():  # else somebody else was first
                    raise
        self._handle = self._open()
        # Each commit since it was pruned last is a file: a start alone is no reason to prune.
        self._pruned = self._handle.version() - len(self._handle.file_uris())
        owner = self.owner()
        recorded = owner[1].channel if owner else ""
        if self.channel and recorded not in ("", self.channel):
            raise other_channel(self.path, recorded, self.channel)
        if not take_over:
            check_free(self.path, owner[1] if owner else None)
        self.channel = self.channel or recorded
        self.took_over = owner is not None and not owner[1].is_dead
        self._fence = Fence.behind(owner[0] if owner else 0)
        self._times.follow(self._held())
        try:
            with held_if_done(claim := self._fence.claim):
                self.write("owner", detail=json.dumps(asdict(Owner.me(self.channel, claim))))
        except FencedError as error:
            raise beaten(error, self.path, self.owner(), self.channel) from error
        return self.epoch

    def check_owner(self) -> None:
        """Raises FencedError when another one has taken over since ``claim``."""
        if not self.is_owner():
            raise taken_over(self.path, self.owner())

    def is_owner(self) -> bool:
        """Whether nobody has taken the target over since ``claim``."""
        owner = self.owner()
        return owner is None or owner[0] == self.epoch

    def release(self) -> None:
        """Gives the target back: another owner may claim it, also in this process, and this one can
        write nothing any more. What is held back still is given up: its statements come again."""
        if not self.epoch:  # never claimed, or fenced off when it tried
            return
        released = replace(Owner.me(self.channel), released=True)
        self._held_back.clear()
        # Also where storage fails; and taken over meanwhile there is nothing to release.
        with let_go(self._fence.claim), contextlib.suppress(FencedError):
            self.write("owner", detail=json.dumps(asdict(released)))
        self._handle = None

    def write(
        self,
        kind: str,
        *,
        position: int = 0,
        gtid_executed: str = "",
        detail: str = "{}",
        check: Callable[[], object] = bool,
    ) -> None:
        """Appends one row as the owner; called again after an error, not a second time.

        ``check`` is asked of the version behind which the row lands. Raises what that raises,
        FencedError when another one took over, OSError and ConcurrentChangeError for what may pass,
        TargetError for what storage said otherwise.
        """
        row = self._row(kind, position, gtid_executed, detail)
        with self._lock:
            self._append([*self._held_back.rows, (row, detail)], check)

    def write_held_back(self) -> None:
        """Appends the rows that were held back, in one commit. Raises as ``write``."""
        with self._lock:
            if self._held_back.rows:
                self._append(list(self._held_back.rows))

    def _append(self, rows: list[tuple[Row, str]], check: Callable[[], object] = bool) -> None:
        """Appends rows, those that were held back first, in one commit. The lock is held."""
        table = rows_table([row for row, _ in rows])
        content = "".join(said(row, detail) for row, detail in rows)
        for tries in reversed(range(_BESIDE_MOST)):  # others may write beside us
            check()
            self._held_back.check()
            read = self._read
            with contextlib.suppress(*[ConcurrentChangeError] if tries else ()):
                self._commit(table, content, "append")
                break
        self._held_back.clear()
        if self._handle is not None and self._handle.version() == read.version + 1:
            self._read = read.behind(*({**row, "detail": detail} for row, detail in rows))
        assert self._handle is not None
        checkpoint_if_due(self._handle)

    def _row(self, kind: str, position: int, gtid_executed: str, detail: str) -> Row:
        at = self._times.of(kind, position, self._held)
        row = {"kind": kind, "epoch": self.epoch, "at": at, "position": position}
        return {**row, "gtid_executed": gtid_executed, "detail": formats.stamp(detail, _FORMAT)}

    def prune(
        self, retention: Retention, settle: Settle,
        gone: Callable[[], Collection[str]] = frozenset, *, due: bool = False,
    ) -> bool:  # fmt: skip
        """Forgets cuts that are promised no more, owners before this one, and rows that later ones
        supersede; many small files become one. ``gone``: paths where no table is any more; ``due``:
        now, not each hundred commits. Returns whether it was time. Raises as ``write``, and OSError
        when what stays can't be made durable: then nothing is removed."""
        if not (due or self._is_prune_due()):
            return False
        paths = gone()  # no path is given to a table again before the rows below are forgotten
        with self._lock:
            if self._handle is None or not (due or self._is_prune_due()):
                return False
            rows, version = self._rows_of(self._handle), self._handle.version() + 1
            kept = current(needed(rows, self.epoch, retention, datetime.now(UTC)), paths, _FORMAT)
            self._commit(kept, f"prune {rows.num_rows}", "overwrite")
            self._pruned = self._handle.version()
            if self._pruned == version:
                self._read = HeldRows.of(version, kept, SHARED_FORMAT, self.path)
            tidy(self._handle, self.path, settle)
            return True

    def _is_prune_due(self) -> bool:
        handle = self._handle
        return handle is not None and handle.version() >= self._pruned + _PRUNE_EVERY

    def _commit(self, rows: pa.Table, content: str, mode: Literal["append", "overwrite"]) -> None:
        if self._handle is None:
            raise FencedError("this process does not own the target", file=self.path)
        mark = self._fence.mark(content)
        try:
            self._write_rows(
                self._handle, rows, mode=mode, commit_properties=self._fence.properties(mark),
                post_commithook_properties=NO_HOOK,
            )  # fmt: skip
        except (DeltaError, OSError) as error:
            self._look(mark, error)

    def _look(self, mark: str, error: Exception) -> None:
        """Looks whether a commit that failed has landed all the same; raises ``error``'s meaning
        when it has not."""
        assert self._handle is not None
        before, newest = self._handle.version(), self._open()
        marks = self._fence.marks_behind(self.path, before, newest.version(), self.is_owner)
        self._handle = newest if marks is not None else None  # what lies between is judged
        if marks is None:
            raise taken_over(self.path, self.owner()) from error
        if mark in marks:
            return
        if newest.version() > before:
            raise ConcurrentChangeError(f"somebody else wrote to {self.path}") from error
        with storage.named(self.path):
            raise meaning(error, _WRITE, self.path) from error

    def named(self, error: SparkReplError) -> SparkReplError:
        """The error; a FencedError says in addition who owns the target now, when another does."""
        if isinstance(error, FencedError) and "pid" not in error.message:
            owner = self.owner()
            error.message += who(owner) if owner and owner[0] != self.epoch else ""
        return error

    def write_beside(
        self, kind: str, check: Callable[[], bool], *, position: int = 0, detail: str = "{}",
        number: int = 0,
    ) -> None:  # fmt: skip
        """Appends one row beside a running applier, if ``check`` says so of the version behind
        which it lands. ``number``: its format, 0: others'. Raises as that, OSError, TargetError."""
        for _ in range(_BESIDE_MOST):
            seen = self._open()
            version = seen.version()
            if not check():
                return None
            stamped = {"detail": formats.stamp(detail, number or _FORMAT)}
            rows = rows_table([self._row(kind, position, "", detail) | stamped])
            once: dict[str, Any] = {"commit_properties": CommitProperties(max_commit_retries=0)}
            once["post_commithook_properties"] = NO_HOOK
            try:
                return self._write_rows(seen, rows, mode="append", **once)
            except (DeltaError, OSError) as error:
                # Else somebody came first; or it has landed, which ``check`` sees.
                if self._open().version() == version:
                    raise meaning(error, _WRITE, self.path) from error
        raise TargetError(f"other commits came first {_BESIDE_MOST} times", file=self.path)

    def hold_back(self, kind: str, check: Callable[[], object] = bool, **row: Any) -> None:
        """Writes a row, as ``write`` would, with the next one that is written, in the same commit;
        what ``check`` raises, that write raises."""
        with self._lock:
            self._held_back.add(self._row(kind, **row), row["detail"], check)

    def publish(self, cut: Cut, *, later: bool = False) -> None:
        """Publishes a cut, after the last table of its group has landed; ``later``: held back."""
        put = self.hold_back if later else self.write
        at, executed, detail = cut.position, cut.gtid_executed, cut.to_detail()
        put("cut", position=at, gtid_executed=executed, detail=detail)
