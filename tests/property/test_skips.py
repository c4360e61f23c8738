"""Random histories with transactions that don't fit and are skipped, cut off at any step. Every cut
is a committed state of the source without the skipped transactions, with and without commit order.

The oracle is serial apply: a transaction whose rows fit is applied whole; a transaction with rows
that don't fit must stop the applier, and the error names it, until the user skips it. A transaction
that a kill has left in some tables can't be skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from spark_repl.cli.main import main
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import RowError
from spark_repl.position import RelayPosition
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, rows, run

TABLES = (Table("a"), Table("b"), Table("c"))
State = dict[str, dict[int, str]]
OF_ROWS = st.tuples(st.sampled_from(TABLES), st.integers(0, 3), st.integers(0, 5))
TRANSACTIONS = st.lists(
    st.lists(OF_ROWS, min_size=1, max_size=3, unique_by=lambda found: found[0]),
    min_size=1, max_size=12,
)  # fmt: skip
SETTINGS = st.fixed_dictionaries(
    {
        "group_max_transactions": st.sampled_from([1, 2, 3, 100]),
        "preserve_commit_order": st.sampled_from([False, False, True]),
    }
)
# Where a run is cut off (0: nowhere), how it is set, which transaction is to be skipped then.
RUNS = st.lists(st.tuples(st.integers(0, 40), SETTINGS, st.integers(0, 12)), max_size=4)


@dataclass
class History:
    """Transactions as the source has them, and what serial apply makes of them."""

    log: LogWriter
    transactions: list[list[Change]] = field(default_factory=list)
    skipped: set[int] = field(default_factory=set)
    _rows: State = field(default_factory=lambda: {table.name: {} for table in TABLES})

    def begin(self) -> None:
        for statement in ("CREATE DATABASE t", *(table.create for table in TABLES)):
            self.log.ddl(statement)
            self.transactions.append([])

    def write(self, chosen: list[tuple[Table, int, int]]) -> None:
        """Changes that fit, but for some of rows that are missing. (No row is inserted twice: of a
        table whose every row came from this log the source itself is believed.)"""
        changes = [self._change(*one) for one in chosen]
        self.log.transaction(*changes)
        self.transactions.append(changes)
        if (after := applied(self._rows, changes)) is not None:
            self._rows = after

    def _change(self, table: Table, key: int, how: int) -> Change:
        there, text = key in self._rows[table.name], f"{self.log.gno}"
        if not there and how > 1:
            return insert(table, (key, text))
        if how % 2:
            return update(table, ((key, "?"), (key, text)))
        return delete(table, (key, "?"))

    def serial(self) -> tuple[list[State], int | None]:
        """The states behind each transaction; which one stops serial apply."""
        state: State = {table.name: {} for table in TABLES}
        states = []
        for number, changes in enumerate(self.transactions):
            if number not in self.skipped:
                after = applied(state, changes)
                if after is None:
                    return states, number
                state = after
            states.append(state)
        return states, None


def applied(state: State, changes: list[Change]) -> State | None:
    """The state behind a transaction; None when its rows don't fit."""
    after = {name: dict(found) for name, found in state.items()}
    for change in changes:
        found, (key, text) = after[change.table.name], change.images[-1]
        comes = change.kind == insert(change.table).kind
        if (key in found) == comes:
            return None
        found.pop(key, None)
        if change.kind != delete(change.table).kind:
            found[key] = text
    return after


class Target:
    """What is applied so far, looked at from outside."""

    def __init__(self, history: History, folder: Path) -> None:
        self.history, self.folder = history, folder

    def run(self, crash: int, **chosen: Any) -> bool:
        """Whether the log's end was reached. A transaction that doesn't fit is the right one, in no
        table, and skipped then."""
        try:
            return run(self.history.log.folder, self.folder, crash=crash, **chosen)
        except RowError as error:
            wrong = self.history.serial()[1]
            assert wrong is not None
            assert error.gtid == self.history.log.gtid(wrong)
            assert self.skip(wrong), "what failed was in some table"
            return False

    def skip(self, number: int) -> bool:
        gtid = self.history.log.gtid(number)
        done = main(["skip", "--gtid", gtid, "--target", str(self.folder)]) == 0
        self.history.skipped |= {number} if done else set()
        return done

    def try_to_skip(self, pick: int) -> None:
        """Behind a kill: some transaction beyond the last cut, that may be in some tables."""
        published = cuts(self.folder)
        if not published:
            return
        first = number_of(published[-1].gtid_executed)
        first = max(first, 1 + len(TABLES))  # no statement
        beyond = {*range(first, len(self.history.transactions))} - self.history.skipped
        if not beyond:
            return
        number = sorted(beyond)[pick % len(beyond)]
        ahead = {table.name: self.position(table) for table in TABLES}
        mine = {change.table.name for change in self.history.transactions[number]}
        file, _, end = self.history.log.spans[number]
        place = RelayPosition(int(file[-6:]), end).packed
        there = any(ahead[name] >= place for name in mine)
        if max(ahead.values()) <= published[-1].position:
            assert self.skip(number), "no table is ahead"
            event("skipped behind a kill")
        elif self.skip(number):
            event("skipped while tables are ahead")
            assert not there, "left out what some table has"
        else:
            event("refused" if there else "refused to be safe")

    def position(self, table: Table) -> int:
        folder = self.folder / "t" / table.name
        snapshot = TableLog().snapshot(str(folder))
        return (snapshot and TableLog.last_txn(snapshot, "spark_repl:default")) or 0

    def check(self) -> None:
        states, wrong = self.history.serial()
        assert wrong is None
        for cut in cuts(self.folder):
            want = states[number_of(cut.gtid_executed) - 1]
            for name, at in cut.tables.items():
                table = next(one for one in TABLES if f"t.{one.name}" == name)
                have = rows(self.folder, table, at.version)
                assert have == sorted(want[table.name].items()), cut.gtid_executed
        for table in TABLES:
            assert rows(self.folder, table) == sorted(states[-1][table.name].items())


def number_of(executed: str) -> int:
    return int(re.split("[:-]", executed)[-1])


APART = {"group_max_transactions": 1, "preserve_commit_order": False}
IN_TWOS = {"group_max_transactions": 2, "preserve_commit_order": False}
A, B, C = TABLES
HALF = [[(A, 0, 2), (B, 0, 0)], [(C, 1, 2)]]


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(TRANSACTIONS, RUNS, SETTINGS)
@example(HALF, [(0, APART, 0)], APART)
@example(HALF, [(0, IN_TWOS, 0)], IN_TWOS)
@example([[(A, 0, 2), (B, 0, 2)], [(A, 1, 2), (C, 0, 2)]], [(20, APART, 0), (9, APART, 1)], APART)
def test_cuts_are_states_without_what_was_skipped(
    transactions: list[list[tuple[Table, int, int]]],
    runs: list[tuple[int, dict[str, Any], int]],
    last: dict[str, Any],
) -> None:
    with TemporaryDirectory() as folder:
        history = History(LogWriter(Path(folder) / "log"))
        history.begin()
        for chosen in transactions:
            history.write(chosen)
        target = Target(history, Path(folder) / "lake")
        for crash, chosen, pick in runs:
            if not target.run(crash, **chosen):
                target.try_to_skip(pick)
        while not target.run(0, **last):
            pass
        target.check()
