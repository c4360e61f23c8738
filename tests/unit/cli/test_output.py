"""The end of ``apply`` and ``run``: a few lines for people, all counters as JSON."""

from __future__ import annotations

import json
from typing import Any

from spark_repl.cli.output import print_result
from spark_repl.observe.reports.applier_status import Counters, Result
from spark_repl.position import RelayPosition

GTIDS = "11111111-2222-3333-4444-555555555555:1-1347"


def result(**counters: Any) -> Result:
    position = RelayPosition(2, 4711)
    return Result(Counters(**counters), 12.345, GTIDS, position, "bin.000002:4711", None)


def test_the_end_has_what_was_applied_and_up_to_where(capsys: Any) -> None:
    print_result(result(transactions=1347, row_changes=12034, groups=7, waves=9, cuts=7), False)
    assert capsys.readouterr().out.splitlines() == [
        "applied: 1,347 transactions, 12,034 row changes",
        "seconds: 12.3",
        "relay_position: bin.000002:4711",
        f"gtid_executed: {GTIDS}",
    ]


def test_notes_name_only_what_is_unusual(capsys: Any) -> None:
    counters = {"transactions": 1, "row_changes": 1, "statements": 2, "retries": 1,
                "task_retries": 2, "already": 5, "warnings": ["t.a: what it is"]}  # fmt: skip
    print_result(result(**counters), False)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "applied: 1 transaction, 1 row change, 2 statements"
    assert last == (
        "notes: transactions that some table had already: 5; retries: 3; t.a: what it is"
    )


def test_json_has_all_counters(capsys: Any) -> None:
    print_result(result(transactions=3, waves=2, skipped=1), True)
    fields = json.loads(capsys.readouterr().out)
    assert (fields["transactions"], fields["waves"], fields["skipped"]) == (3, 2, 1)
    assert fields["retries"] == 0 and fields["warnings"] == []
