"""What ``verify --repair`` does with tables whose rows can't be repaired: a copy is made where
nothing gets lost by it, and only where a copy is the cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.control.records.repair_results import RepairResult, record_result
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.copy.repair_request import RepairRequest, left
from spark_repl.service.table_repairs import repair_tables
from tests.unit.copy.test_repairer import REQUEST

ANSWERS = {
    "rows": {"rows": 2, "version": 5}, "refused": {"refused": "no"}, "failed": {"failed": "a bug"},
}  # fmt: skip


@pytest.fixture
def owner(tmp_path: Path) -> Control:
    """A target that is owned."""
    control = Control(Layout(str(tmp_path)).control, "default")
    control.claim()
    control.publish(Cut(7, "", "log", {}, {}))
    return control


def outcome(
    target: Path, owner: Control, how: str, outliving: bool
) -> tuple[dict[str, Any], list[str]]:
    """What a repair of t.a has for a result, and which tables were copied; the owner answers each
    request, if there is one, as ANSWERS has it."""
    config = Config().override({"target.path": str(target)})
    copied: list[str] = []
    folder = Path(Layout(str(target)).requests)

    def session() -> Any:
        raise AssertionError("an applier runs")

    name = "t.a"
    repairs: dict[str, RepairRequest | str] = {name: "it has no key" if how == "whole" else REQUEST}

    def answer(_: float) -> None:
        for request in left(folder):
            record_result(owner, RepairResult(request.name, name, 2, **ANSWERS[how]))
            request.unlink()

    found = repair_tables(
        config, repairs, session, copied.extend, {name} if outliving else (), pause=answer
    )
    return found, copied


@pytest.mark.parametrize("outliving", [False, True])
@pytest.mark.parametrize("how", ["rows", "refused", "failed", "whole"])
def test_a_table_is_copied_where_nothing_gets_lost(
    tmp_path: Path, owner: Control, how: str, outliving: bool
) -> None:
    found, copied = outcome(tmp_path, owner, how, outliving)
    is_cure = how in ("refused", "whole")
    assert copied == (["t.a"] if is_cure and not outliving else [])
    assert [*found["copied"]] == copied
    assert found["repaired"] == (["t.a"] if how == "rows" or copied else [])
    wrong = found["not_repaired"]
    assert [*wrong] == ([] if found["repaired"] else ["t.a"])
    if outliving and is_cure:
        assert "a copy would remove rows or columns that it keeps" in wrong["t.a"]
    elif how == "failed":
        assert wrong["t.a"] == "a bug"
