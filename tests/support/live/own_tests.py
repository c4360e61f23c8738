"""MySQL's own tests as logs: each is run against a server up to a DROP TABLE, its binary log is
applied to an empty target, and all rows are compared with the server's (``verify``).

    python -m tests.support.live.own_tests SUITE OUT.jsonl [COUNT]

``SUITE``: the folder ``mysql-test`` of Debian's package mysql-testsuite; ``SPARK_REPL_MYSQL``: the
server. A line of OUT is a place: ``equal``, ``stopped`` with the error, ``DIFFERS``, or why there
was nothing to compare. No test of this project: what MySQL's tests need that is not here (debug
builds, plugins, replicas) ends them early, and what was logged until then is compared.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import SparkReplError
from spark_repl.verify.verifier import Verifier, VerifyLimits
from tests.support.local_delta import HERE, LocalDelta, run

from .receiving import config_for
from .server import Server, copy_of

_SUITES = ("t", "suite/innodb/t", "suite/gcol/t", "suite/json/t", "suite/parts/t",
           "suite/binlog/t", "suite/engines/funcs/t")  # fmt: skip
_WANTED = re.compile(r"(create|alter)\s+table", re.IGNORECASE)
_UNFIT = re.compile(
    r"have_debug|restart_mysqld|kill_mysqld|big_test|master-slave|group_replication|include/rpl"
    r"|reset\s+(master|binary)|install plugin|component|sql_log_bin *= *(0|off)",
    re.IGNORECASE,
)
_DROP = re.compile(rb"drop\s+(table|database|schema)", re.IGNORECASE)
_BLOCK = re.compile(rb"(--)?\s*(write_file|append_file|perl)\b")
_PLACES, _TEST_S, _OPTIONS = 3, 45, ("--log-bin-trust-function-creators=1", "--local-infile=1")
_MADE = ("CREATE DATABASE test", "CREATE DATABASE mtr",
         "CREATE PROCEDURE mtr.add_suppression(x TEXT) BEGIN END")  # fmt: skip


def chosen(suite: Path, count: int) -> list[Path]:
    """So many tests with statements that change tables, the same ones each time."""
    fit = list[Path]()
    for folder in _SUITES:
        for path in sorted((suite / folder).glob("*.test")):
            text = path.read_text("latin1")
            if _WANTED.search(text) and not _UNFIT.search(text):
                fit.append(path)
    return random.Random(7).sample(fit, min(count, len(fit)))


def places(test: Path) -> Iterator[tuple[int, bytes]]:
    """(number of lines, that part of the test) before its last DROP, and before two others: at the
    end most tests have dropped all that they made."""
    lines, found, depth, end, before = test.read_bytes().split(b"\n"), [], 0, b"", b";"
    for number, raw in enumerate(lines):
        line = raw.strip()
        if end:
            end = b"" if line == end else end
        elif _BLOCK.match(line):
            end = b"EOF"
        elif not line.startswith(b"#"):
            if not depth and _DROP.match(line) and before.endswith((b";", b"}")):
                found.append(number)
            depth += line.count(b"{") - line.count(b"}")
            before = line if line and not line.startswith(b"--") else before
    some = random.Random(test.name).sample(found, min(_PLACES - 1, len(found)))
    for number in sorted({*found[-1:], *some}):
        yield number, b"\n".join(lines[:number]) + b"\n"


def carried_out(server: Server, suite: Path, part: Path, folder: Path) -> int | str:
    """mysqltest's exit code, or that it took too long."""
    for name in ("tmp", "log"):
        (folder / name).mkdir()
    (folder / "std_data").symlink_to(suite / "std_data")
    usr = server.mysql / "root" / "usr"
    libraries = next((usr / "lib").glob("*-linux-gnu*"))
    client = f"{server.mysql}/bin/mysql --no-defaults -uroot --socket={server.socket}"
    environment = {
        "MYSQL_TEST_DIR": str(suite), "MYSQLTEST_VARDIR": str(folder), "MYSQL": client,
        "MYSQL_TMP_DIR": f"{folder}/tmp", "MASTER_MYPORT": str(server.port),
        "MASTER_MYSOCK": str(server.socket), "MYSQL_VERSION_ID": "90704",
        "MYSQL_CHARSETSDIR": f"{usr}/share/mysql/charsets", "DEFAULT_ENGINE": "InnoDB",
    }  # fmt: skip
    command = [
        next(libraries.glob("ld-linux*")), "--inhibit-cache", "--library-path", libraries,
        suite / "bin" / "mysqltest", "--no-defaults", "--silent", "--user=root",
        f"--socket={server.socket}", "--database=test", f"--tmpdir={folder}/tmp",
        f"--logdir={folder}/log", f"--basedir={suite}/", f"--test-file={part}",
        f"--character-sets-dir={usr}/share/mysql/charsets",
    ]  # fmt: skip
    try:
        return subprocess.run(
            list(map(str, command)), cwd=suite, env={**os.environ, **environment}, check=False,
            capture_output=True, timeout=_TEST_S,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return "late"


def compared(server: Server, folder: Path) -> dict[str, Any]:
    """What came of the log, applied and verified."""
    log = Path(server.data)
    if not (log / "binlog.000001").exists():
        return {"outcome": "its log has no beginning"}
    config = config_for(server, folder).override({"target.zero_dates": "string"})
    layout = Layout.of(config.target)
    try:
        run(log, config.target.path, keys={"zero_dates": "string"})
        workers = HERE.workers(None, 2, config)  # type: ignore[arg-type]
        limits = VerifyLimits(wait_s=20.0)
        found = Verifier(config, layout, LocalDelta(), workers, limits).verify()
    except SparkReplError as error:
        return {"outcome": "stopped", "error": type(error).__name__, "said": str(error)}
    cut = Control(layout.control).last_cut()
    assert cut is not None
    extra = sorted(cut.tables.keys() - found.tables.keys() - found.not_compared.keys())
    wrong = found.total("differing") or found.not_compared or extra
    return {
        "outcome": "DIFFERS" if wrong else "equal", "tables": len(found.tables),
        "rows": found.total("rows"), "differences": found.differences[:5],
        "not_compared": found.not_compared, "extra": extra,
    }  # fmt: skip


def at_place(template: Server, suite: Path, test: Path, part: bytes) -> dict[str, Any]:
    """One part of a test, with a server of its own that has the test's options."""
    with tempfile.TemporaryDirectory(prefix="own_tests-") as name:
        folder, file = Path(name), test.with_name(f"{test.stem}-master.opt")
        given = file.read_text().split() if file.exists() else []
        options = [one for one in given if one.startswith("--") and "$" not in one]
        server = copy_of(template, folder / "data", 5, *_OPTIONS, *options)
        (folder / test.name).write_bytes(part)
        try:
            server.start().query(*_MADE)
            code = carried_out(server, suite, folder / test.name, folder)
            server.query("FLUSH BINARY LOGS")
            return {"mysqltest": code, **compared(server, folder)}
        except (AssertionError, pymysql.err.MySQLError) as error:
            return {"outcome": "no server", "said": str(error)[-300:]}
        finally:
            server.stop()
            shutil.rmtree(folder / "data", ignore_errors=True)


def main(suite: Path, out: Path, count: int) -> None:
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory() as name, out.open("a") as lines:
        template = Server(Path(os.environ["SPARK_REPL_MYSQL"]), Path(name) / "data", 1)
        template.initialise()
        for test in chosen(suite, count):
            for line, part in places(test):
                found = {"test": test.name, "line": line, **at_place(template, suite, test, part)}
                print(json.dumps(found, default=str), file=lines, flush=True)
                outcomes[found["outcome"]] += 1
    print(dict(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]), int((*sys.argv[3:], "150")[0]))
