"""The example in each command's help: it runs here as it stands, or elsewhere."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from spark_repl.cli.commands import EXAMPLES
from spark_repl.cli.main import _RUN, main
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import run
from tests.support.sources import functions

TESTS = Path(__file__).parents[1]
ORDERS = Table("orders", database="shop")
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TYPED = "live/test_help_examples_live.py::test_the_examples_of_a_live_server_run"
BENCH = "live/test_help_examples_live.py::test_the_example_of_a_benchmark_runs"
ELSEWHERE = {
    **dict.fromkeys(
        ("init", "config check", "run", "snapshot", "receive", "verify", "status", "relay purge"),
        TYPED,
    ),
    **dict.fromkeys(("bench receive", "bench latency", "bench snapshot"), BENCH),
}
"""typed there"""
OTHER_VALUES = {
    "demo": "package/check_wheel.sh",
    "setup": "package/check_wheel.sh",
    "apply": "spark/test_examples.py::test_the_readmes_commands_end_as_the_server",
    **dict.fromkeys(("catalog sync", "cut publish", "cut unpublish"), "spark/test_catalogs.py"),
    "target move": "applier/test_target_move.py",
    **dict.fromkeys(("bench ddl", "bench endurance", "bench apply"), "spark/test_bench.py"),
}
"""commands that need minutes, a metastore or a bucket: these tests run them with other values"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """A folder with a relay log, a target that has it all, and a configuration."""
    log = LogWriter(tmp_path / "relay", source=SERVER, stem="binlog")
    log.ddl("CREATE DATABASE shop")
    log.ddl(ORDERS.create)
    log.transaction(insert(ORDERS, (1, "open"), (2, "paid")))
    log.xa_prepare((b"order", b"", 1), insert(ORDERS, (3, "sent")))
    log.transaction(insert(ORDERS, (4, "open")))
    if name.startswith("quarantine"):
        log.transaction(delete(ORDERS, (77, "no such")))
    assert run(log.folder, tmp_path / "lake", on_error="quarantine")
    (tmp_path / "my.toml").write_text('[relay]\npath = "relay"\n[target]\npath = "lake"\n')
    (tmp_path / "my.toml").chmod(0o600)
    (tmp_path / "log").symlink_to("relay")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_command_has_an_example_that_a_test_runs() -> None:
    assert sorted(EXAMPLES) == sorted(_RUN)
    for name, test in {**ELSEWHERE, **OTHER_VALUES}.items():
        path, _, function = test.partition("::")
        assert name in _RUN and (TESTS / path).is_file(), test
        assert not function or function in functions(TESTS / path), test
        if name in OTHER_VALUES and not function:
            assert all(word in (TESTS / path).read_text("utf-8") for word in name.split()), test


@pytest.mark.parametrize(
    "name", [name for name in EXAMPLES if name not in {*ELSEWHERE, *OTHER_VALUES}]
)
def test_an_example_runs(here: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "cut unpin":
        assert main(["cut", "pin", *shlex.split(EXAMPLES["cut pin"])]) == 0
    assert main([*name.split(), *shlex.split(EXAMPLES[name])]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_help_ends_with_the_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    assert capsys.readouterr().out.endswith(
        f"\nExample:\n  spark-repl {name} {EXAMPLES[name]}".rstrip() + "\n"
    )
