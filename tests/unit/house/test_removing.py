"""Below the target only ``delta/store/remover`` removes: every other call that removes or replaces
a file is of the working state, of the relay log, or of a process's own new file."""

from __future__ import annotations

import ast

from tests.support.imports import modules
from tests.support.sources import tree

REMOVES = {
    "delete_dir", "delete_file", "remove_folder", "remove_if_there", "remove_objects", "removedirs",
    "rmdir", "rmtree", "unlink", "vacuum",
}  # fmt: skip
OF_MODULES = {"remove", "rename", "replace", "move"}
"""functions of these names count where they are of ``os``, ``shutil`` or ``storage``"""

WAY = {"delta.store.remover", "delta.store.storage", "runtime.local_store", "runtime.object_store"}
OWN = {
    "control.transaction_files.log_bytes", "write.files.discard", "delta.managed.managed_tables",
}  # fmt: skip
"""files that the process has made, and that no commit names"""
VACUUM = {"write.upkeep.table_maintenance"}
"""a caller of ``delta.vacuum``, which removes by a ``Remover``"""
STATE = {
    "apply.group.staging_folder", "apply.stream.stream",
    "apply.stream.stream_checkpoint", "control.table.owner",
    "control.records.replaced_tables", "control.records.channel_reset",
    "control.transaction_files.xa_store", "copy.recopy", "copy.repairer",
    "observe.reports.applier_status", "observe.reports.run_report",
    "observe.reports.verify_status",
    "relay.file_index", "relay.remote_bytes", "runtime.executor_disk", "runtime.part_files",
    "service.table_repairs", "verify.store_workers", "verify.work_folder",
    "write.files.key_index", "write.files.key_segments",
}  # fmt: skip
"""the working state"""
ELSEWHERE = {
    "bench.endurance", "bench.recorded", "binlog.kernels.cache", "cli.config_command",
    "cli.cut_command", "cli.init_command", "cli.status_command", "cli.setup", "receiver.archiver",
    "receiver.purge", "receiver.recovery", "receiver.restored_log", "receiver.writer",
    "relay.archive", "runtime.java", "service.supervisor", "demo.live_demo",
}  # fmt: skip
"""the relay log and its archive, of which each receiver removes its own generation and those that
it replaces, caches of the user, files that a command is asked to write, targets of a bench,
an empty folder by which ``config check`` tries a target, a receiver's own note of its error,
the folder that a demo made"""
NO_FILES = {"decode.cascades.cascade_simulation"}


def removals(module: ast.AST) -> list[str]:
    """The calls that remove a file, or take its name."""
    calls = [node.func for node in ast.walk(module) if isinstance(node, ast.Call)]
    found = []
    for call in calls:
        name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
        owner = ast.unparse(call.value) if isinstance(call, ast.Attribute) else ""
        of_module = name in OF_MODULES and owner in ("os", "shutil", "storage")
        if name in REMOVES or of_module or (owner, name) == ("obstore", "delete"):
            found.append(ast.unparse(call))
    return found


def test_nothing_else_removes_below_the_target() -> None:
    calling = {name for name, path in modules().items() if removals(tree(path))}
    assert calling == WAY | OWN | VACUUM | STATE | ELSEWHERE | NO_FILES


def test_every_call_passes_the_remover_that_asks() -> None:
    """Without a remover the owner is not checked: only readers have none."""
    asked = ("remove_commits", "remove_empty_commits", "forget_lost", "XaStore", "QuarantineStore")
    without = set()
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in asked:
                given = [*map(ast.unparse, node.args), *(ast.unparse(k) for k in node.keywords)]
                if not any("remover" in one for one in given):
                    without.add(name)
    assert without == {"cli.quarantine_command"}


def test_calls_that_remove_files_are_recognised() -> None:
    code = "os.remove(p)\nPath(p).unlink()\nstorage.remove_folder(p)\ntext.replace('a', 'b')\n"
    code += "shutil.move(a, b)\nself.remover.files([p], make_durable)\nitems.remove(p)"
    wanted = ["os.remove", "Path(p).unlink", "storage.remove_folder", "shutil.move"]
    assert removals(ast.parse(code)) == wanted
