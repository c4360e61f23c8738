"""Rates of transactions and row changes over the last minute."""

from __future__ import annotations

from spark_repl.observe.reports.rates import Rates, rates_per_s, table_rates


def test_rates_are_of_the_last_minute_and_fall(clock):
    made = Rates()
    made.count({"t.a": 600})
    made.seconds = {"t.a": 1.23456}
    clock[0] += 60
    said = made.fields(100, 600)
    assert rates_per_s(said, running=True) == {"transactions_per_s": 1.7, "row_changes_per_s": 10.0}
    assert table_rates(said, "t.a", running=True) == {
        "row_changes": 600, "row_changes_per_s": 10.0, "write_seconds": 1.235,
    }  # fmt: skip
    assert table_rates(said, "t.b", running=True) == {
        "row_changes": 0, "row_changes_per_s": 0.0, "write_seconds": 0.0,
    }  # fmt: skip
    earlier = {**said, "tables": {"t.a": [600, 600]}}
    assert table_rates(earlier, "t.a", running=True)["write_seconds"] == 0.0
    assert rates_per_s(said, running=False)["row_changes_per_s"] == 0.0
    clock[0] += 60
    assert rates_per_s(said, running=True)["row_changes_per_s"] == 5.0, "nobody has written since"
    assert rates_per_s(made.fields(100, 600), running=True)["row_changes_per_s"] == 0.0
    assert rates_per_s({}, running=True) == {"transactions_per_s": 0.0, "row_changes_per_s": 0.0}
