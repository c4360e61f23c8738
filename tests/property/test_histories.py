"""Random histories, cut off at random steps and applied again with other bounds, workers and order.
The result is always that of serial apply, in each table and each cut.

This is the scheduler's oracle: groups and lanes that run in parallel do not change the result.
Scenarios 2, 4, 17, 25, 27, 46, 47: the grid of what is assigned, processed and checkpointed when a
run ends, and the restart after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from tests.support.binlog_writer import Change, LogWriter, Table, Xid, delete, insert, update
from tests.support.local_delta import rows, run

TABLES = (Table("a"), Table("b"))
State = dict[str, dict[int, str]]
Step = tuple[str, int, int]  # what, a number that chooses on which rows, another one

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["rows", "rows", "rows", "empty", "ddl", "rotate", "prepare", "end"]),
        st.integers(0, 2**16),
        st.integers(0, 2**16),
    ),
    min_size=1,
    max_size=14,
)
SETTINGS = st.fixed_dictionaries(
    {
        "group_max_transactions": st.sampled_from([1, 2, 3, 100]),
        "workers": st.sampled_from([1, 2, 3]),
        "preserve_commit_order": st.booleans(),
        "vectors": st.booleans(),
        "partition_by": st.sampled_from([(), ("t.a(v)", "t.b(id)"), ("t.a(id)", "t.b(v)")]),
    }
)
RUNS = st.lists(st.tuples(st.integers(1, 40), SETTINGS), max_size=3)


@dataclass
class Writer:
    """Writes the history, and knows the state and the prepared branches behind each transaction.
    Branches hold locks, so no other transaction changes their rows."""

    log: LogWriter
    state: State = field(default_factory=lambda: {table.name: {} for table in TABLES})
    states: list[State] = field(default_factory=list)
    branches: dict[Xid, list[tuple[str, int, str | None]]] = field(default_factory=dict)
    prepared: list[set[str]] = field(default_factory=list)
    last: dict[tuple[str, int], int] = field(default_factory=dict)

    def begin(self) -> None:
        self.log.ddl("CREATE DATABASE t")
        self._behind()
        for table in TABLES:
            self.log.ddl(table.create)
            self._behind()

    def step(self, kind: str, pick: int, how: int) -> None:
        if kind == "rotate":
            self.log.rotate()
            self.last = {}
            return
        if kind == "end" and self.branches:
            self._end(pick, commit=bool(how % 3))
        elif kind == "prepare":
            xid = (b"x%d" % (pick % 5), b"\0'", how % 3)
            if xid in self.branches:
                return
            self.branches[xid] = []
            self.log.xa_prepare(xid, *self._changes(pick, how, xid))
        elif kind == "ddl":
            self.log.ddl("GRANT SELECT ON t.* TO 'x'@'%'")
        else:
            self.log.transaction(*(self._changes(pick, how) if kind == "rows" else []))
        self._behind()

    def _behind(self) -> None:
        self.states.append({name: dict(table) for name, table in self.state.items()})
        self.prepared.append({xid[0].hex() + xid[1].hex() for xid in self.branches})

    def _changes(self, pick: int, how: int, xid: Xid | None = None) -> list[Change]:
        """Some rows of one table or both: inserts, updates, deletes, as the rows are there."""
        changes, parent = [], 0
        locked = {(n, key) for rows_ in self.branches.values() for n, key, _ in rows_}
        for table in TABLES if how % 2 else TABLES[how // 2 % 2 :][:1]:
            for key in {pick % 7, (pick >> 3) % 7}:
                place = (table.name, key)
                if place in locked:
                    continue
                parent = max(parent, self.last.get(place, 0))
                self.last[place] = self.log.sequence + 1
                changes.append(self._change(table, key, f"{self.log.gno}", pick >> 6, xid))
        # As WRITESET has it; the server never lets a part of XA overtake the one before.
        self.log.parent = None if xid or not parent else parent
        return changes

    def _change(self, table: Table, key: int, text: str, how: int, xid: Xid | None) -> Change:
        now = self.state[table.name]
        after: str | None = text
        if key not in now:
            change = insert(table, (key, text))
        elif how % 3:
            change = update(table, ((key, now[key]), (key, text)))
        else:
            change, after = delete(table, (key, now[key])), None
        if xid is not None:
            self.branches[xid].append((table.name, key, after))
        else:
            self._set(table.name, key, after)
        return change

    def _set(self, name: str, key: int, after: str | None) -> None:
        self.state[name].pop(key, None)
        if after is not None:
            self.state[name][key] = after

    def _end(self, pick: int, *, commit: bool) -> None:
        xid = sorted(self.branches)[pick % len(self.branches)]
        for name, key, after in self.branches.pop(xid):
            self.last[name, key] = self.log.sequence + 1
            if commit:
                self._set(name, key, after)
        self.log.xa_end("COMMIT" if commit else "ROLLBACK", xid)


def check(writer: Writer, target: Path, cuts: list[Cut]) -> None:
    before = 0
    for cut in cuts:
        count = int(re.split("[:-]", cut.gtid_executed)[-1])
        assert count >= before, "the GTID set shrinks"
        before = count
        want = writer.states[count - 1]
        for name, at in cut.tables.items():
            table = next(t for t in TABLES if f"t.{t.name}" == name)
            have = rows(target, table, at.version)
            assert have == sorted(want[table.name].items()), cut.gtid_executed
        named = {branch["gtrid"] + branch["bqual"] for branch in cut.prepared}
        assert named == writer.prepared[count - 1]
    for table in TABLES:
        assert rows(target, table) == sorted(writer.state[table.name].items())
    kept = {path.stem for path in (target / "_repl" / "xa").glob("*")}
    assert len(kept) == len(writer.branches)


def applied(steps: list[Step], runs: list[tuple[int, dict[str, Any]]], last: Any) -> None:
    with TemporaryDirectory() as folder:
        writer = Writer(LogWriter(Path(folder) / "log"))
        writer.begin()
        for step in steps:
            writer.step(*step)
        target = Path(folder) / "lake"
        for crash, chosen in runs:
            if run(writer.log.folder, target, crash=crash, **chosen):
                break
        assert run(writer.log.folder, target, **last)
        cuts = Control(Layout(str(target)).control).cuts()
        assert cuts[-1].gtid_executed.endswith(f"-{len(writer.states)}")
        check(writer, target, cuts)


CALM = {"group_max_transactions": 2, "workers": 2, "preserve_commit_order": True}
APART = {**CALM, "group_max_transactions": 1, "preserve_commit_order": False}
ANEW = {**CALM, "vectors": False}
PARTITIONED = {**CALM, "partition_by": ("t.a(v)", "t.b(id)")}
MIXED = [("prepare", 1, 3), ("rows", 9, 3), ("rotate", 0, 0), ("end", 0, 1), ("rows", 1, 3)]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(STEPS, RUNS, SETTINGS)
@example(MIXED, [(5, CALM), (7, APART)], CALM)
@example(MIXED, [(9, ANEW)], APART)
@example(MIXED, [(9, PARTITIONED)], {**ANEW, **PARTITIONED})
@example(MIXED, [(n, APART) for n in (3, 9, 12)], APART)
def test_any_interleaving_is_serial_apply(
    steps: list[Step], runs: list[tuple[int, dict[str, Any]]], last: Any
) -> None:
    # Scenarios 2, 4, 17, 25, 27, 46, 47: see above.
    applied(steps, runs, last)
