"""row_filter over random histories: every cut has the rows for which it is true, and no other, in
tables with and without a key, whatever images, groups, workers and crashes there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, run

COLUMNS = (("id", "int"), ("v", "int"), ("s", "varchar(40)"))
KEYED, KEYLESS = Table("a", COLUMNS), Table("b", COLUMNS, ())
Row = tuple[int, int | None, str | None]
FILTERS: dict[str, Callable[[Row], bool | None]] = {
    "v > 2": lambda row: row[1] is not None and row[1] > 2,
    "id % 2 = 1": lambda row: row[0] % 2 == 1,
    "NOT (v = 3)": lambda row: row[1] is not None and row[1] != 3,
    "s = 'aa' OR v IS NULL": lambda row: row[2] == "aa" or row[1] is None,
    "CASE WHEN id < 4 THEN v IN (1, 2) ELSE s <> 'b' END": lambda row: (
        row[1] in (1, 2) if row[0] < 4 else row[2] not in (None, "b")
    ),
    "v + id - 4": lambda row: row[1] is not None and row[1] + row[0] != 4,
}
VALUES = st.tuples(
    st.integers(1, 7), st.one_of(st.none(), st.integers(0, 5)), st.sampled_from(["aa", "b", None])
)
STEPS = st.lists(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from("iudm"), st.integers(0, 99), VALUES),
        min_size=1, max_size=5,
    ),
    min_size=1, max_size=10,
)  # fmt: skip
SETTINGS = st.fixed_dictionaries(
    {
        "group_max_transactions": st.sampled_from([1, 3, 100]),
        "workers": st.sampled_from([1, 3]),
        "exec_mode": st.sampled_from(["strict", "strict", "idempotent"]),
        "vectors": st.booleans(),
    }
)


class Model:
    """What the source's tables hold, and the changes that make it so."""

    def __init__(self) -> None:
        self.keyed: dict[int, Row] = {}
        self.bag: list[Row] = []

    def change(self, keyed: bool, what: str, pick: int, row: Row) -> list[Any]:
        if not keyed:
            return self._of_bag(what, pick, row)
        there = sorted(self.keyed)
        if what == "i" or not there:
            if row[0] in self.keyed:
                return []
            self.keyed[row[0]] = row
            return [insert(KEYED, row)]
        before = self.keyed.pop(there[pick % len(there)])
        if what == "d":
            return [delete(KEYED, before)]
        if what == "u" or row[0] in self.keyed:
            row = (before[0], *row[1:])
        self.keyed[row[0]] = row
        return [update(KEYED, (before, row))]

    def _of_bag(self, what: str, pick: int, row: Row) -> list[Any]:
        if what == "i" or not self.bag:
            self.bag.append(row)
            return [insert(KEYLESS, row)]
        before = self.bag.pop(pick % len(self.bag))
        if what == "d":
            return [delete(KEYLESS, before)]
        self.bag.append(row)
        return [update(KEYLESS, (before, row))]

    def passing(self, passes: Callable[[Row], bool | None]) -> tuple[Any, Any]:
        return (
            Counter(filter(passes, self.keyed.values())), Counter(filter(passes, self.bag)),
        )  # fmt: skip


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(STEPS, st.sampled_from([*FILTERS]), SETTINGS, st.integers(0, 30))
def test_every_cut_has_the_rows_that_pass(
    steps: Any, text: str, given_settings: dict[str, Any], crash: int
) -> None:
    with TemporaryDirectory() as folder:
        log, model, target = LogWriter(Path(folder) / "log"), Model(), Path(folder) / "lake"
        for statement in ("CREATE DATABASE t", KEYED.create, KEYLESS.create):
            log.ddl(statement)
        states = {3: model.passing(FILTERS[text])}
        for step in steps:
            if changes := [one for op in step for one in model.change(*op)]:
                log.transaction(*changes)
                states[max(states) + 1] = model.passing(FILTERS[text])
        options = {"tables": [{"match": "t.%", "row_filter": text}], **given_settings}
        if crash:
            run(log.folder, target, crash=crash, **options)
        assert run(log.folder, target, **options)
        shown = cuts(target)
        assert _ordinal(shown[-1].gtid_executed) == max(states)
        for cut in shown:
            if (at := _ordinal(cut.gtid_executed)) in states:
                found = at_cut(target, cut)
                rows = Counter(found["t.a"]), Counter(found["t.b"])
                assert rows == states[at], (text, at)


def _ordinal(gtids: str) -> int:
    return int(re.findall(r"\d+$", gtids)[0])
