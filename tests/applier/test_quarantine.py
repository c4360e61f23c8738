"""Tables in quarantine: the others go on, what is kept comes to the table exactly once."""

from __future__ import annotations

from pathlib import Path

from spark_repl.control.by_hand import decide
from spark_repl.control.control import Control
from spark_repl.control.layout import Layout
from spark_repl.control.quarantine import KIND, open_quarantines
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, rows, run

A, B = Table("a"), Table("b")
QUARANTINE = {"on_error": "quarantine"}


def control(target: Path) -> Control:
    return Control(Layout(str(target)).control)


def ask(target: Path, action: str, name: str = "t.a") -> None:
    one = open_quarantines(control(target))[name]
    decide(control(target), KIND, {"id": one.id, "name": name, "action": action})


def test_the_others_go_on(log: LogWriter, target: Path) -> None:
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(delete(A, (77, "no such")), insert(B, (2, "x")))
    for key in range(3, 8):
        log.transaction(insert(A, (key, "behind")), insert(B, (key, "x")))
    assert run(log.folder, target, **QUARANTINE)
    assert rows(target, A) == [(1, "x")]
    assert [key for key, _ in rows(target, B)] == [1, 2, 3, 4, 5, 6, 7]
    mark = cuts(target)[-1].quarantined["t.a"]
    assert (mark.since, mark.transactions) == (log.gtid(4), 6)
    log.transaction(update(A, ((3, "behind"), (3, "changed"))))
    assert run(log.folder, target, **QUARANTINE)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 7
    ask(target, "replay")
    assert run(log.folder, target, **QUARANTINE)
    print(open_quarantines(control(target)))
    ask(target, "replay")
    assert run(log.folder, target, exec_mode="idempotent")
    assert rows(target, A) == [(1, "x"), (3, "changed"), *((k, "behind") for k in range(4, 8))]
    assert not cuts(target)[-1].quarantined
