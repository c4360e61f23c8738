"""A table that waits for a copy gets no name by which more of it would be copied."""

from __future__ import annotations

import pytest

from spark_repl.config.tables import TableRule
from spark_repl.errors import SettingError
from spark_repl.rules.column_rules import ColumnRules
from spark_repl.rules.table_rules import TableRules

HIDDEN = (("mail", "null"),)
RULES = ColumnRules(
    TableRules((TableRule(match="t.a", mask=HIDDEN), TableRule(match="t.b", mask=HIDDEN)))
)


@pytest.mark.parametrize(("before", "after"), [("t.a", "t.c"), ("t.c", "t.a")])
def test_a_waiting_table_may_not_get_a_name_of_another_rule(before: str, after: str) -> None:
    with pytest.raises(SettingError, match=f"it would be called {after}"):
        RULES.check_renamed_waiting(before, after)


@pytest.mark.parametrize(("before", "after"), [("t.a", "t.b"), ("t.c", "t.d"), ("t.a", "t._a_old")])
def test_a_waiting_table_may_get_a_name_of_the_same_rule(before: str, after: str) -> None:
    RULES.check_renamed_waiting(before, after)
