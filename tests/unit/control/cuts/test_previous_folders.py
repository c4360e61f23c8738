"""Which folders beside a table are what it was before."""

from __future__ import annotations

from pathlib import Path

from spark_repl.control.cuts.previous_folders import (
    PreviousFolder,
    previous_folder_lines,
    previous_folders,
)
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout


def cut(**paths: str) -> Cut:
    tables = {
        f"t.{name}" + "//1" * ("//" in path): TableVersion(path, 1, path, 1)
        for name, path in paths.items()
    }
    return Cut(1, "", "log", {}, tables)


def test_what_was_copied_anew_has_a_former_place_while_it_is_there(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    for folder in ("t/a", "t/a@2", "t/a@3", "t/b", "u/c@2"):
        (tmp_path / folder).mkdir(parents=True)
    found = previous_folders(layout, cut(a="t/a@3", b="t/b", c="u/c@2"))
    assert found == [PreviousFolder("t.a", "t/a@3", ("t/a", "t/a@2"))]
    assert found[0].notice.startswith("t.a is at t/a@3: what lies at t/a, t/a@2 is what it was")
    (tmp_path / "t" / "a").rmdir()
    assert previous_folders(layout, cut(a="t/a@3")) == [PreviousFolder("t.a", "t/a@3", ("t/a@2",))]
    assert previous_folders(layout, cut(a="t/a@2")) == []


def test_what_another_table_has_is_not_former(tmp_path: Path) -> None:
    """RENAME leaves a table where it is, and its name may come again; shards are in one table."""
    for folder in ("t/a", "t/a@2", "t/s", "t/s@2"):
        (tmp_path / folder).mkdir(parents=True)
    renamed = cut(a="t/a@2", b="t/a", s="t/s@2//1")
    assert previous_folders(Layout(str(tmp_path)), renamed) == [
        PreviousFolder("t.s", "t/s@2", ("t/s",))
    ]


def test_a_number_as_large_as_it_likes_costs_one_listing(tmp_path: Path) -> None:
    (tmp_path / "t" / "a@99999").mkdir(parents=True)
    (former,) = previous_folders(Layout(str(tmp_path)), cut(a="t/a@100000"))
    assert former.before == ("t/a@99999",)


def test_five_of_many_are_named() -> None:
    """All tables may have been copied again."""
    former = [PreviousFolder(f"t.{n}", f"t/{n}@2", (f"t/{n}",)) for n in range(9)]
    assert previous_folder_lines(former[:5]) == [one.notice for one in former[:5]]
    assert len(previous_folder_lines(former)) == 6 and previous_folder_lines(former)[-1].startswith(
        "... and of 4 more tables"
    )
