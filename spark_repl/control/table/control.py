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
import time
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from ... import formats
from ...delta import storage
from ...delta.checkpoint import ends_with
from ...delta.delta_rs import NO_HOOK, delta_rs, meaning
from ...delta.log_replay import commit_path
from ...delta.removing import Remover
from ...errors import ConcurrentChangeError, FencedError, SparkReplError, TargetError
from .control_cleanup import checkpoint_if_due, tidy
from .control_rows import ControlRows
from .control_snapshot import HeldRows, Row
from .cut_encoding import Told, mark_of, retold, tell
from .fence import Fence, beaten, check_free, other_channel, taken_over
from .owner import Owner, held_if_done, let_go, who
from .pending_rows import HeldBack, RowTimes
from .row_formats import KNOWN_FORMAT, SCHEMA, format_of, row_content, rows_table

if TYPE_CHECKING:
    from .control_cleanup import Barrier
    from .cut import Cut

_PRUNE_EVERY, _BESIDE_MOST = 100, 100
_WRITE = "write the control table"


class PruningRules(Protocol):
    """Chooses the rows of the control table that pruning keeps (``records/pruning``)."""

    def __call__(
        self, rows: pa.Table, *, epoch: int, bases: Container[str], gone: Collection[str]
    ) -> pa.Table:
        """Return the rows to keep, of ``rows`` as they are stored. ``epoch``: the owner's;
        ``bases``: ids of cuts to keep whatever is promised, since other rows are encoded as
        differences to them; ``gone``: paths where no table exists any more."""


class Control(ControlRows):
    """Reads the control table; writes it after ``claim``. Safe to call from several threads.

    ``channel``: the one that the target has to belong to; "": any. ``append``: delta-rs' own."""

    def __init__(
        self, path: str, channel: str = "", *, append: Callable[..., None] = write_deltalake
    ) -> None:
        super().__init__(path)
        self.channel, self._write_rows = channel, append
        self.took_over = False  # from an owner that may be alive
        self._fence, self._times = Fence(), RowTimes()
        self._handle: DeltaTable | None = None
        self._held_back = HeldBack()
        self._owned_at: int | None = None  # the version that said so when it was asked last
        self._told: Told | None = None  # the cut that the next one's row may be told since
        self._pruned, self._lock = 0, threading.Lock()  # at a version

    @property
    def epoch(self) -> int:
        """The epoch of the owner that this process is; 0: it has claimed nothing."""
        return self._fence.epoch

    def claim(self, *, take_over: bool = False) -> int:
        """Makes this process the owner; returns the new epoch.

        Raises FencedError, naming the first, when another one is or may be alive, TargetError when
        the target is another channel's.
        """
        storage.check_bucket(self.path)
        storage.make_folder(self.path)
        if not self.exists():
            storage.check_conditions(self.path)
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
        self._times.follow(self.held())
        self._told = self._owned_at = None
        try:
            with held_if_done(claim := self._fence.claim):
                self.write("owner", detail=json.dumps(asdict(Owner.me(self.channel, claim))))
        except FencedError as error:
            raise beaten(error, self.path, self.owner(), self.channel) from error
        return self.epoch

    def check_owner(self) -> None:
        """Raise FencedError unless this process owns the target: another one has taken it over
        since ``claim``, or the target was removed or made again. While nobody writes to the control
        table this takes two looks at names of its log, so that it can be asked before each removal
        of many. Raise OSError, TargetError."""
        if self._owned_at is not None and ends_with(self.path, self._owned_at):
            return
        held = self.held()
        if not storage.is_file(commit_path(self.path, held.version)):
            self._read = HeldRows()  # what it has read is of another table
            held = self.held()
        owner = self.owner()
        if owner is None or (owner[0], owner[1].claim) != (self._fence.epoch, self._fence.claim):
            raise taken_over(self.path, owner)
        self._owned_at = held.version

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
        self._told = None
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
        number: int = 0,
    ) -> None:
        """Appends one row as the owner; called again after an error, not a second time.

        ``check`` is asked of the version behind which the row lands. ``number``: its format, 0:
        that of its kind. Raises what that raises,
        FencedError when another one took over, OSError and ConcurrentChangeError for what may pass,
        TargetError for what storage said otherwise.
        """
        row = self._row(kind, position, gtid_executed, detail, number)
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
        content = "".join(row_content(row, detail) for row, detail in rows)
        for tries in reversed(range(_BESIDE_MOST)):  # others may write beside us
            check()
            self._held_back.check()
            read = self._read
            with contextlib.suppress(*[ConcurrentChangeError] if tries else ()):
                as_they_are = self._commit(table, content, "append")
                break
        self._held_back.clear()
        assert self._handle is not None
        if as_they_are and self._handle.version() == read.version + 1:
            self._read = read.behind(*({**row, "detail": detail} for row, detail in rows))
        checkpoint_if_due(self._handle)

    def _row(
        self, kind: str, position: int, gtid_executed: str, detail: str, number: int = 0
    ) -> Row:
        """``number``: its format, 0: that of its kind."""
        at = self._times.of(kind, position, self.held)
        row = {"kind": kind, "epoch": self.epoch, "at": at, "position": position}
        stamped = formats.stamp(detail, number or format_of(kind))
        return {**row, "gtid_executed": gtid_executed, "detail": stamped}

    def prune(
        self, rules: PruningRules, barrier: Barrier,
        gone: Callable[[], Collection[str]] = frozenset, *, due: bool = False,
    ) -> bool:  # fmt: skip
        """Remove the rows that ``rules`` do not keep, and rewrite many small files as one. ``gone``
        returns the paths where no table exists any more. ``due``: prune now, not after each hundred
        commits. Return whether it was time. Raise as ``write``, and OSError if ``barrier`` can't
        make the remaining rows durable: then nothing is removed."""
        if not (due or self._is_prune_due()):
            return False
        paths = gone()  # no path is given to a table again before the rows below are forgotten
        with self._lock:
            if self._handle is None or not (due or self._is_prune_due()):
                return False
            began = time.time()
            rows, version = self._rows_of(self._handle), self._handle.version() + 1
            kept = rules(rows, epoch=self.epoch, bases=self._stood_on(), gone=paths)
            kept = retold(rows, kept, self.path)
            self._commit(kept, f"prune {rows.num_rows}", "overwrite")
            self._pruned = self._handle.version()
            if self._pruned == version:
                self._read = HeldRows.of(version, kept, KNOWN_FORMAT, self.path)
            tidy(self._handle, self.path, barrier, Remover(self.check_owner), began)
            return True

    def begin_again(
        self, stay: Collection[str], rows: Mapping[str, str],
        check: Callable[[], object] = bool,
    ) -> None:  # fmt: skip
        """Replace all rows, in one commit, but those of the kinds that ``stay``: by ``rows``, kind
        -> detail. ``check``: as ``write`` has it. Raises as that."""
        with self._lock:
            self._held_back.clear()
            self._told = None
            for tries in reversed(range(_BESIDE_MOST)):  # others may write beside us
                check()
                before = self._rows_of(self._handle or self._open())
                kept = before.filter(pc.is_in(before.column("kind"), pa.array(list(stay))))
                new = [(self._row(kind, 0, "", detail), detail) for kind, detail in rows.items()]
                table = rows_table([row for row, _ in new]).cast(kept.schema)
                content = "".join(row_content(row, detail) for row, detail in new)
                with contextlib.suppress(*[ConcurrentChangeError] if tries else ()):
                    self._commit(pa.concat_tables([kept, table]), content, "overwrite")
                    return

    def _is_prune_due(self) -> bool:
        handle = self._handle
        return handle is not None and handle.version() >= self._pruned + _PRUNE_EVERY

    def _commit(self, rows: pa.Table, content: str, mode: Literal["append", "overwrite"]) -> bool:
        """Returns False where rows have landed before that say the same, at another time."""
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
            return False
        return True

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
        which it lands. ``number``: as ``write``. Raises as ``check``, OSError, TargetError."""
        for _ in range(_BESIDE_MOST):
            seen = self._open()
            version = seen.version()
            if not check():
                return None
            rows = rows_table([self._row(kind, position, "", detail, number)])
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
        """Publishes a cut, after the last table of its group has landed; ``later``: held back.
        Raises as ``write``."""
        with self._lock:
            detail, told = tell(cut, self._told)
            number = cut.row_format(since=bool(mark_of(detail)[1]))
            row = self._row("cut", cut.position, cut.gtid_executed, detail, number)
            if later:
                self._held_back.add(row, detail)
            else:
                self._append([*self._held_back.rows, (row, detail)])
            self._told = told

    def _stood_on(self) -> set[str]:
        """The ids of the rows that the next cut may be told since, and that those which are held
        back are: they stay, whatever is promised. The lock is held."""
        held_back = {mark_of(detail)[1] for _, detail in self._held_back.rows}
        return held_back | ({self._told.id} if self._told else set())
