"""``reset``: tables begin again, all of a channel's or some, whatever a kill leaves."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_repl.cli.main import main
from spark_repl.config import load
from spark_repl.control.records.channel_reset import plan_all, reset_all
from spark_repl.control.records.channels import opened
from spark_repl.control.records.retention import pin, pins
from spark_repl.control.records.table_paths import RESET, given_paths
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.remover import Remover
from spark_repl.errors import TargetError
from spark_repl.relay.archive import LogNote, RelayArchive
from spark_repl.service.channel_run import is_new
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import applier, cuts, last_shown, put, rows, run, stopped
from tests.support.made_copy import finish, plan, read

A, B = Table("a"), Table("b")
X = [(1, "x")]


@pytest.fixture
def file(log: LogWriter, target: Path, tmp_path: Path) -> Path:
    """The configuration of a target that has two tables."""
    log.transaction(insert(A, *X), insert(B, *X))
    assert run(log.folder, target)
    made = tmp_path / "run.toml"
    made.write_text(f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\n')
    made.chmod(0o600)
    return made


def reset(file: Path, *more: str) -> int:
    return main(["reset", "--config", str(file), *more, "--json"])


def test_reset_all_lists_and_removes_every_file(
    log: LogWriter, target: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(target.rglob("*"))
    assert reset(file, "--all", "--dry-run") == 0
    shown = capsys.readouterr()
    said = json.loads(shown.out.splitlines()[-1])
    assert said["tables"] == ["t.a", "t.b"] and said["dry_run"]
    assert f"{target}/t/a" in shown.err and "4 cuts" in shown.err
    assert sorted(target.rglob("*")) == before
    assert reset(file, "--all") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["tables"] == ["t.a", "t.b"]
    assert not [*(target / "t").iterdir()] and not cuts(target)
    assert is_new(load(str(file)))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": X, "t.b": X}
    paths = {at.path for at in cuts(target)[-1].tables.values()}
    assert paths == {"t/a@2", "t/b@2"}, "no path is given again"


def test_no_branch_gets_the_name_of_one_before_the_reset(
    log: LogWriter, target: Path, file: Path
) -> None:
    """Executors that outlive the reset keep the bytes of branches by their names."""
    log.xa_prepare((b"one", b"", 1), insert(A, (2, "new")))
    names = list[str]()
    for _ in range(2):
        assert run(log.folder, target)
        names += [branch["file"] for branch in cuts(target)[-1].prepared]
        assert reset(file, "--all") == 0
    position, epoch = names[0].removesuffix(".events").split("-")
    assert names[1].startswith(position) and names[1] != names[0] and int(epoch)


def test_all_removes_the_archived_relay_logs(
    target: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found: they stayed, and a start without a relay log restored them. Other targets' stay."""
    archive = RelayArchive(str(tmp_path / "archive" / "default"))
    own = archive.folder(archive.begin(LogNote("a" * 32, str(target))))
    other = archive.folder(archive.begin(LogNote("b" * 32, "/other")))
    file.write_text(
        file.read_text().replace("[relay]", f'[relay]\narchive = "{tmp_path / "archive"}"')
    )
    assert reset(file, "--all", "--dry-run") == 0
    assert f"archived relay log {own}" in capsys.readouterr().err and Path(own).exists()
    assert reset(file, "--all") == 0
    assert own in json.loads(capsys.readouterr().out.splitlines()[-1])["folders"]
    assert not Path(own).exists() and Path(other).exists()


def test_reset_all_ends_after_a_kill(log: LogWriter, target: Path, file: Path) -> None:
    """The tables are forgotten in one commit; their folders go now, or at the next reset."""

    class KilledError(BaseException):
        pass

    def kill() -> None:
        if not (target / "t/a").exists():
            raise KilledError

    at = opened(load(str(file)))
    at.control.claim()
    with pytest.raises(KilledError):
        reset_all(at, Remover(kill))
    at.control.release()
    assert not (target / "t/a").exists() and (target / "t/b").exists()
    assert not cuts(target) and is_new(load(str(file)))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": X, "t.b": X}
    assert reset(file, "--all") == 0
    assert not [*(target / "t").iterdir()]


def test_a_running_applier_is_not_disturbed(
    log: LogWriter, target: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = last_shown(target)
    with applier(log.folder, target):
        for what in (["--all"], ["--table", "t.a"]):
            assert reset(file, *what) == 1
            assert "another applier owns this target" in capsys.readouterr().err
            assert reset(file, *what, "--dry-run") == 0
    assert last_shown(target) == before


def test_an_applier_that_slept_is_fenced_off(log: LogWriter, target: Path, file: Path) -> None:
    old = Control(Layout(str(target)).control, "default")
    old.claim()
    assert reset(file, "--all", "--take-over") == 0
    assert not old.is_owner()


def test_a_pinned_cut_keeps_its_tables(
    target: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cut", "pin", "--name", "audit", "--target", str(target)]) == 0
    assert reset(file, "--all") == 1
    err = capsys.readouterr().err
    hint = err.partition("Try: ")[2].splitlines()[0]
    assert main(hint.removeprefix("spark-repl ").split()) == 0
    assert reset(file, "--all") == 0


def test_a_cut_that_is_pinned_before_the_commit(target: Path, file: Path) -> None:
    def write_rows(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        if commit.replaces and not pins(control):
            cut = control.last_cut()
            assert cut is not None
            pin(control, cut, "audit")
        return log.commit(rows, commit)

    control = Control(Layout(str(target)).control)
    at = opened(load(str(file)), lambda path, name: Control(path, name, write_rows=write_rows))
    at.control.claim()
    with pytest.raises(TargetError, match="cuts are pinned"):
        reset_all(at, Remover(at.control.check_owner))
    at.control.release()
    assert [*pins(control)] == ["audit"]
    assert last_shown(target) == {"t.a": X, "t.b": X}


def test_what_is_kept_in_quarantine_goes_with_the_next_start(
    log: LogWriter, target: Path, file: Path
) -> None:
    """The reset was killed behind its first commit, and a run follows."""

    class KilledError(BaseException):
        pass

    def kill() -> None:
        raise KilledError

    log.transaction(delete(A, (77, "no")), insert(B, (2, "x")))
    assert run(log.folder, target, on_error="quarantine")
    kept = target / "_repl" / "quarantine"
    [before] = kept.iterdir()
    at = opened(load(str(file)))
    at.control.claim()
    with pytest.raises(KilledError):
        reset_all(at, Remover(kill))
    at.control.release()
    assert before.exists()
    for _ in range(2):
        assert run(log.folder, target, on_error="quarantine")
    [after] = kept.iterdir()
    assert after != before and [*after.iterdir()]


def test_a_folder_that_is_still_there_is_remembered(
    log: LogWriter, target: Path, file: Path
) -> None:
    """An applier that was taken over, and is only fenced off at its cut, writes to it meanwhile."""
    asked = list[int]()

    def check() -> None:
        asked.append(len(asked))
        at.control.check_owner()
        if len(asked) == 2:
            put(str(target / "t/a"), 3, [], "spark_repl:default", 1 << 40)

    at = opened(load(str(file)))
    at.control.claim(take_over=True)
    reset_all(at, Remover(check))
    assert (target / "t/a").exists() and not (target / "t/b").exists()
    [row] = at.control.rows(RESET)
    assert json.loads(row["detail"])["paths"] == ["t/a"]
    assert plan_all(at).folders == (str(target / "t/a"),)
    reset_all(at, Remover(at.control.check_owner))
    at.control.release()
    assert not at.control.rows(RESET) and not (target / "t/a").exists()
    assert run(log.folder, target)
    assert {at.path for at in cuts(target)[-1].tables.values()} == {"t/a@2", "t/b@2"}


def test_a_table_that_a_person_has_put_there_stays(
    target: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(target / "t/a")
    write_deltalake(str(target / "t/a"), pa.table({"mine": [1, 2, 3]}))
    assert reset(file, "--all") == 0
    assert (target / "t/a/_delta_log").exists() and not (target / "t/b").exists()
    assert "was not made by an applier" in caplog.text


def test_a_reset_leaves_other_channels_as_they_are(
    log: LogWriter, us: LogWriter, target: Path, file: Path
) -> None:
    assert run(us.folder, target, channel="us")
    shown = cuts(target, "us")[-1]
    assert reset(file, "--all") == 0
    assert cuts(target, "us")[-1] == shown and (target / "u/a").exists()
    assert run(us.folder, target, channel="us")
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": X, "t.b": X}


def test_reset_all_of_one_channel_leaves_the_others(
    log: LogWriter, us: LogWriter, target: Path, file: Path
) -> None:
    assert run(us.folder, target, channel="us")
    file.write_text(f'channel = "us"\n{file.read_text()}')
    assert reset(file, "--all") == 0
    assert not [*(target / "u").iterdir()]
    assert last_shown(target) == {"t.a": X, "t.b": X}


def test_a_reset_table_waits_for_its_copy(log: LogWriter, target: Path, file: Path) -> None:
    """The others go on; cuts from before still show it."""
    earlier = cuts(target)[-1]
    assert reset(file, "--table", "t.a") == 0
    assert cuts(target)[-1].waiting.keys() == {"t.a"}
    log.transaction(insert(A, (2, "x")), insert(B, (2, "x")))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.b": [*X, (2, "x")]}
    assert rows(target, A, earlier.tables["t.a"].version) == X
    plan(target, "t.a")
    read(target, A, [*X, (2, "x")])
    finish(target, f"{log.source}:1-{log.gno - 1}")
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [*X, (2, "x")], "t.b": [*X, (2, "x")]}


def test_tables_whose_folders_are_gone_can_be_reset(
    log: LogWriter, target: Path, file: Path
) -> None:
    """The start goes on with the whole ones, also where a copy of one of them stood."""
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY, v VARCHAR(20))")
    assert run(log.folder, target)
    for name in "ab":
        shutil.rmtree(target / "t" / name)
    assert isinstance(stopped(log.folder, target), TargetError)
    plan(target, "t.a")
    assert reset(file, "--table", "t.a", "--table", "t.b") == 0
    assert run(log.folder, target)
    assert last_shown(target) == {"t.c": []} and cuts(target)[-1].waiting.keys() == {"t.a", "t.b"}


def test_a_reset_of_an_absent_table_names_the_nearest(
    target: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset(file, "--table", "t.aa") == 2
    assert "Try: it has t.a" in capsys.readouterr().err
    file.write_text(file.read_text().replace(str(target), str(tmp_path / "empty")))
    assert reset(file, "--all") == 0
    assert not (tmp_path / "empty").exists()


def test_tables_that_no_cut_shows(
    log: LogWriter, target: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Error 1032 before the first cut: its hint leads to a command that begins again."""
    assert reset(file, "--all") == 0
    control = Control(Layout(str(target)).control, "default")
    control.claim()
    control.write("table", detail=json.dumps({"name": "t.a", "path": "t/a@2", "made_by": ""}))
    control.release()
    assert not is_new(load(str(file)))
    assert reset(file, "--table", "t.a") == 1
    hint = capsys.readouterr().err.partition("spark-repl ")[2].splitlines()[0]
    assert main([*hint.replace(" F", f" {file}").split()]) == 0
    assert is_new(load(str(file))) and "t/a@2" in given_paths(control)


def follow(hint: str | None, file: Path) -> None:
    """Carry out the commands that a hint names, as they are written, of t.a."""
    commands = re.findall(r"spark-repl ([^,;]*--config F)", str(hint))
    assert commands, hint
    given = {"F": str(file), "DB.TABLE": "t.a"}
    for command in commands:
        assert main([given.get(word, word) for word in command.split()]) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"mask": {"v": "null"}}),
        ({}, {"exclude": ["v"]}),
        ({"row_filter": "id > 0"}, {"row_filter": "id > 1"}),
        ({}, {"mode": "changelog"}),
        ({}, {"to": "t.other"}),
    ],
    ids=["mask", "exclude", "row_filter", "mode", "to"],
)
def test_the_hint_of_a_changed_rule_can_be_followed(
    log: LogWriter, target: Path, tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """The command of the hint is carried out, and the next start goes on by the new rule."""
    log.transaction(insert(A, *X), insert(B, *X))
    assert run(log.folder, target, tables=[{"match": "t.a", **before}] if before else ())
    file = tmp_path / "run.toml"
    file.write_text(f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\n')
    file.chmod(0o600)
    rule = [{"match": "t.a", **after}]
    log.transaction(insert(A, (2, "y")), insert(B, (2, "y")))
    error = stopped(log.folder, target, tables=rule)
    follow(error.hint, file)
    assert run(log.folder, target, tables=rule)
    assert {"t.b"} <= set(cuts(target)[-1].tables)


def test_what_a_value_without_a_partition_advises(log: LogWriter, target: Path, file: Path) -> None:
    log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "")))
    error = stopped(log.folder, target, partition_by=["t.a(v)"])
    assert error.number == 1526
    follow(error.hint, file)
    assert run(log.folder, target)
    assert cuts(target)[-1].waiting.keys() == {"t.a"}


def test_what_shards_advise_that_filters_leave_out(
    log: LogWriter, target: Path, tmp_path: Path
) -> None:
    rule = {"match": "s%.a", "to": "lake.all", "key_prefix": "_s"}
    options: dict[str, Any] = {"tables": [rule], "keys": {"column_mapping": True}}
    for number in (1, 2):
        log.ddl(f"CREATE DATABASE s{number}", f"s{number}")
        log.ddl(A.create.replace("t.a", f"s{number}.a"), f"s{number}")
        log.transaction(insert(replace(A, database=f"s{number}"), *X))
    assert run(log.folder, target, **options)
    file = tmp_path / "run.toml"
    file.write_text(f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\n')
    file.chmod(0o600)
    options["filters"] = {"ignore_db": ["s2"]}
    error = stopped(log.folder, target, **options)
    assert "leave out shards" in str(error)
    follow(error.hint, file)
    assert run(log.folder, target, **options)
    assert "lake.all//1" in cuts(target)[-1].tables and "lake.all//2" not in cuts(target)[-1].tables


def test_no_hint_advises_an_empty_target() -> None:
    """``reset`` empties a target by a command that can be followed."""
    package = Path(__file__).parents[2] / "spark_repl"
    advice = re.compile(r"(use|with|into|in) an empty target")
    found = [path for path in package.rglob("*.py") if advice.search(path.read_text("utf-8"))]
    assert [path.relative_to(package).as_posix() for path in found] == []
