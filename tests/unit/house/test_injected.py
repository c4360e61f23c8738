"""What tests replace of the package is given to it, not patched by its name: a part of a
``Replica`` (``apply/start/replica``), an argument with a default, a subclass, a crash point
that is listened to.

A bound (a name in capitals) is set for a test: it is no part. So are modules of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.imports import PACKAGE, ROOT, modules
from tests.support.sources import tree

TESTS = ROOT / "tests"
_ANSWER = "a server's answer without a server"
_WEAK = "keys of one hash are too rare to be found; to ask for it would cost each key"
_OWN = (ast.ClassDef, ast.FunctionDef)
# test module: what is patched -> why it can't be given
PATCHED: dict[str, dict[str, str]] = {
    "applier/test_restarts.py": {
        "spark_repl.relay.log.open_log": "a purge between two calls of the system in one look"
    },
    "applier/test_retry_budget.py": {
        "spark_repl.apply.group.xa_parts.read_statement": (
            "a read that fails for a moment, then does not"
        )
    },
    "applier/test_row_repair.py": {
        "spark_repl.write.rows.row_repair.row_actions": "an error between files and their commit"
    },
    "applier/test_standstill.py": {
        "spark_repl.write.tables.tracking.Tracking.is_ahead": (
            "a lane that goes on between two looks"
        )
    },
    "applier/test_status.py": {
        "spark_repl.cli.status_command.time": "the command's own pauses, and no other thread's"
    },
    "applier/test_statistics_check.py": {
        "spark_repl.write.tables.table_commits.TableCommits.commit_after_sharing": (
            "another channel's commit between the look at the files and their own"
        )
    },
    "applier/test_xa_bytes.py": {
        "spark_repl.control.records.durability_barrier.DurabilityBarrier.__call__": (
            "one sync among many that does not succeed"
        )
    },
    "crash/power_load.py": {
        "spark_repl.control.transaction_files.xa_store.XaStore.forget": (
            "an end before the tables are synced for it"
        ),
        "spark_repl.write.upkeep.scheduler.UpkeepScheduler.schedule": (
            "upkeep beside the first sync of a table would meet the window that docs/limits names"
        ),
    },
    "crash/storage_steps.py": {
        "spark_repl.write.upkeep.scheduler.UpkeepScheduler.schedule": (
            "upkeep beside a step would meet the step's fault"
        )
    },
    "live/test_snapshot_changes.py": {
        "spark_repl.copy.first_copy.FirstCopy._copy_chunks": (
            "statements on the server at one table's reading"
        )
    },
    "live/test_verify.py": {
        "spark_repl.verify.source_range._digest": "the fifth of some ranges fails"
    },
    "live/test_waiting_live.py": {
        "spark_repl.copy.source_tables.table_definition": "statements while a plan is made"
    },
    "property/test_weak_hash.py": {
        f"spark_repl.write.{module}.hash_keys": _WEAK
        for module in ("files.key_lookup", "files.key_index")
    },
    "spark/test_variant.py": {
        "spark_repl.write.upkeep.scheduler.UpkeepScheduler.schedule": (
            "upkeep has to be done when the test looks"
        )
    },
    "unit/control/table/test_control.py": {
        "spark_repl.control.table.control.remove_commits": (
            "young commits stay: nothing would be seen"
        )
    },
    "unit/delta/log/test_checkpoint_schedule.py": {
        "spark_repl.delta.log.checkpoint_schedule.names": "a listing is what must not be made"
    },
    "unit/delta/log/test_empty_commits.py": {
        "spark_repl.delta.log.empty_commits.newest_and_names": "a listing is what must not be made"
    },
    "unit/delta/log/test_log_cleanup.py": {
        "spark_repl.delta.log.log_cleanup.listed": "a part that is renamed behind the listing",
        "spark_repl.delta.log.log_cleanup.modified": "how many times are asked for is counted",
    },
    "unit/copy/test_copy_chunk_extra_columns.py": {
        "spark_repl.copy.copy_chunk.begin_query": _ANSWER
    },
    "unit/copy/test_copy_chunk_row_filters.py": {"spark_repl.copy.copy_chunk.begin_query": _ANSWER},
    "unit/observe/reports/test_applier_status.py": {
        "spark_repl.observe.reports.applier_status._epoch_of": (
            "that it was not read shows in nothing else"
        )
    },
    "unit/receiver/test_writer.py": {
        "spark_repl.relay.log.read_end": "rotations between the two steps of a reader's look"
    },
    "unit/write/files/test_key_index_codes.py": {
        "spark_repl.write.files.key_index.hash_keys": _WEAK
    },
}


def names_of(source: ast.Module) -> dict[str, str]:
    """Name in a test module -> dotted name of what it means, of imports everywhere in it."""
    names = {}
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name.split(".")[0]: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name of an expression, "" for what is none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "type" and len(node.args) == 1:
        return _dotted(node.args[0], names)
    return ""


def patches(source: ast.Module) -> Iterator[str]:
    """The dotted name of each part of the package that a test module patches, or * for one that
    only a run would tell."""
    names = names_of(source)
    for node in ast.walk(source):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_patch = called.endswith((".setattr", "patch.object")) or called in (
            "patch",
            "mock.patch",
        )
        if not is_patch or not node.args:
            continue
        first = node.args[0]
        if isinstance(first, ast.Constant):
            yield str(first.value)
        elif isinstance(first, ast.Starred) or len(node.args) < 2:
            yield "*"
        elif isinstance(node.args[1], ast.Constant):
            owner = _dotted(first, names)
            yield f"{owner}.{node.args[1].value}" if owner else ""
        elif _dotted(first, names).startswith(PACKAGE):
            yield f"{_dotted(first, names)}.*"


def is_part(name: str) -> bool:
    """Whether the name is of the package, and is no bound; modules of others are not meant."""
    if name == "*":
        return True
    parts = name.split(".")
    if parts[0] != PACKAGE or parts[-1].strip("_").isupper():
        return False
    if parts[-1] == "__version__":
        return False
    known, inner = modules(), parts[1:-1]
    while inner and ".".join(inner) not in known:
        last = inner.pop()
        if not inner or last[:1].islower():  # a module that the module has imported, or a value
            where = known.get(".".join(inner))
            own = (n for n in ast.walk(tree(where)) if isinstance(n, _OWN)) if where else ()
            if where and last not in {node.name for node in own}:
                return False
    return True


def found() -> dict[str, set[str]]:
    """Test module -> the parts that it patches."""
    where = {}
    for path in sorted(TESTS.rglob("*.py")):
        if path.is_relative_to(TESTS / "bench"):
            continue  # figures
        if parts := {name for name in patches(tree(path)) if is_part(name)}:
            where[str(path.relative_to(TESTS))] = parts
    return where


def test_no_part_is_patched_by_name() -> None:
    known = {path: set(names) for path, names in PATCHED.items()}
    assert found() == known
    assert all(len(why) > 20 for names in PATCHED.values() for why in names.values())


def test_patched_names_of_the_package_are_recognised() -> None:
    text = """
from unittest.mock import patch
from spark_repl.copy import recopy, recopy as again
from spark_repl.runtime.retry import Retries
from spark_repl.crash_points import reach
def test(monkeypatch):
    import os
    monkeypatch.setattr(recopy, "plan_again", 1)
    patched.setattr(again, "_POLL_S", 1)
    monkeypatch.setattr(Retries, "_pause", 1)
    monkeypatch.setattr("spark_repl.receiver.purge.reach", 1)
    monkeypatch.setattr(recopy.time, "time", 1)
    monkeypatch.setattr(os, "fsync", 1)
    monkeypatch.setattr(recopy, name, 1)
    monkeypatch.setattr(*place, 1)
    with patch.object(Retries, "run"), patch("spark_repl.gtid.GtidSet"):
        pass
"""
    seen = [name for name in patches(ast.parse(text)) if is_part(name)]
    assert sorted(seen) == sorted([
        "spark_repl.copy.recopy.plan_again", "spark_repl.runtime.retry.Retries._pause",
        "spark_repl.receiver.purge.reach", "spark_repl.copy.recopy.*", "*",
        "spark_repl.runtime.retry.Retries.run", "spark_repl.gtid.GtidSet",
    ])  # fmt: skip
