"""Tables that can't be compared, by what the newest cut says of them, are not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, InQuarantine, Waiting
from spark_repl.control.table.layout import Layout
from spark_repl.copy.source_tables import ListedTable
from spark_repl.sql.classify import classify
from spark_repl.verify.verifier import Verifier, VerifyLimits
from spark_repl.verify.work_folder import TablePlan
from tests.support.local_delta import LocalDelta

WAITS = {"t.a": Waiting("ADD COLUMN n AUTO_INCREMENT", "since:7")}
STANDS = {"t.a": InQuarantine("1032: the row is not there", "since:8", 3, 99)}


class _Asked(Verifier):
    """Of a source that has t.a; what is asked behind the list of tables is an error."""

    questions = 0

    def _query(self, question: Any) -> Any:
        self.questions += 1
        assert self.questions == 1
        definition = classify("CREATE TABLE t.a (id INT PRIMARY KEY)", "t").definition
        assert definition is not None
        return [(ListedTable(definition, 1, 1), TablePlan(("",)))]


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        (
            {"waiting": WAITS},
            "it waits for a copy since since:7: ADD COLUMN n AUTO_INCREMENT",
        ),
        (
            {"quarantined": STANDS},
            "it is in quarantine since since:8: 1032: the row is not there",
        ),
    ],
    ids=["waiting", "quarantined"],
)
def test_a_table_that_is_not_compared_is_named_at_once(
    tmp_path: Path, marks: dict[str, Any], why: str
) -> None:
    layout = Layout(str(tmp_path))
    control = Control(layout.control)
    control.claim()
    control.publish(Cut(9, "11111111-2222-3333-4444-555555555555:1-9", "log", {}, {}, **marks))
    config = Config().override({"target.path": str(tmp_path)})
    found = _Asked(config, layout, LocalDelta(), MagicMock(), VerifyLimits()).verify()
    assert found.not_compared == {"t.a": why}
    assert found.looks == 0 and found.tables == {}
