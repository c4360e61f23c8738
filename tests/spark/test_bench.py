"""``bench``: not what it measures, but that it measures what it says, and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.bench import endurance
from spark_repl.cli.main import main
from tests.support.binlog_writer import Table, delete, insert, update

A = Table("a")


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["bench", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


@pytest.fixture
def begun(log):
    """A log, and as --prepared has it the place behind the table's loading."""
    log.transaction(insert(A, *[(key, "x") for key in range(9)]))
    file, _, end = log.spans[-1]
    log.transaction(update(A, ((1, "x"), (1, "y"))), delete(A, (2, "x")))
    log.transaction(insert(A, (20, "z")))
    return str(log.folder), f"source:{file}:{end}"


@pytest.mark.parametrize(
    ("runs", "more"), [pytest.param("2", [], marks=pytest.mark.slow), ("1", ["--fresh-index"])]
)
def test_bench_apply_counts_only_what_follows_its_place(spark, begun, capsys, runs, more):
    relay, place = begun
    arguments = ["--relay", relay, "--runs", runs, "--prepared", place, *more]
    found = bench(capsys, "apply", *arguments)
    assert (found["rows"], found["groups"]) == (3, 1)
    assert {"stage_s", "write_s", "commit_s"} <= found["phases"].keys()


def test_bench_apply_counts_the_rows_and_groups_of_a_log(spark, begun, capsys):
    found = bench(capsys, "apply", "--relay", begun[0], "--runs", "1", "--group-transactions", "1")
    assert (found["rows"], found["groups"]) == (12, 5)


def test_bench_decode_counts_images_and_net_changes(begun, capsys):
    relay, place = begun
    found = bench(capsys, "decode", f"{relay}/{place.split(':')[1]}")
    assert found["rows"] == 13  # images: the UPDATE has two
    assert (found["net_changes"], found["transactions"]) == (12, 5)
    assert found["phases"].keys() == {"index_s", "decode_s", "net_s"}


@pytest.mark.parametrize("name", ["all_types", "minimal_metadata"])
def test_bench_decode_reads_logs_with_any_dates_and_metadata(capsys, name):
    """Dates that no calendar has, and maps that name no columns."""
    log = Path(__file__).parents[1] / "fixtures" / name / "binlog.000001"
    found = bench(capsys, "decode", str(log))
    assert found["rows"] > found["net_changes"] > 100


def test_fresh_index_without_prepared_is_refused(capsys):
    assert main(["bench", "apply", "--relay", "nowhere", "--fresh-index"]) == 2
    assert "--fresh-index needs --prepared" in capsys.readouterr().err


@pytest.mark.soak
def test_bench_endurance_measures_an_aged_target_beside_a_new_one(
    spark, begun, capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(endurance, "_LOOKS", 1)
    relay, place = begun
    arguments = ["--relay", relay, "--prepared", place, "--group-transactions", "1"]
    arguments += ["--target", str(tmp_path)]
    age = ["--age-days", "0.05", "--commits-per-day", "3600", "--rate", "50"]
    found = bench(capsys, "endurance", *arguments, *age)
    assert (found["age_days"], found["rate"], found["commits_per_table"]) == (0.05, 50, 180)
    looks = {"start_s", "takeover_s", "status_s", "cut_s", "cuts_s", "wait_s"}
    load = {"commit_to_cut_p50_s", "commit_to_cut_p99_s"}
    names = looks | load | {"first_group_s", "rss_mib"}
    for target in ("new", "old", "new_again", "old_again"):
        assert found[target].keys() == names and all(value > 0 for value in found[target].values())
    for name in load | {"status_s", "rss_mib"}:
        assert found[name] == max(found["old"][name], found["old_again"][name])
    assert "warm_up" not in found
    assert list(tmp_path.glob("*old*")) == []


@pytest.mark.parametrize(
    "arguments", [["--relay", "somewhere"], ["--age-days", "-1"], ["--rate", "0"]]
)
def test_wrong_use_of_endurance(capsys, arguments):
    assert main(["bench", "endurance", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err


def test_bench_ddl_counts_its_statements_by_way(spark, capsys):
    found = bench(capsys, "ddl", "--statements", "10", "--tables", "1", "--rows", "9")
    assert found["statements"] == 11
    assert sum(way["statements"] for way in found["ways"].values()) == 11
    assert {"metadata only, ALTER", "names, RENAME"} <= found["ways"].keys()
    assert found["rewrite_rows_per_s"] > 0
