"""The first copy of a live server's tables, cold and warm.

    python -m tests.bench.first_copy --mysql FOLDER [--tables 6] [--rows 400000] [--runs 4]

Starts a server with tables like sysbench's, and runs ``spark-repl bench snapshot`` on them. Prints
its line of JSON: rows a second of the last run in a session, and of the first one, in a cold JVM.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from .make_logs import NUMBERS
from .one_server import config_file, one_server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", required=True, type=Path)
    parser.add_argument("--tables", type=int, default=6)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    with one_server(options.mysql) as (server, folder):
        server.query("CREATE DATABASE bench", "SET GLOBAL cte_max_recursion_depth = 100000000")
        for number in range(options.tables):
            server.query(
                f"CREATE TABLE bench.o{number} (id int PRIMARY KEY, k int NOT NULL,"
                " c char(120) NOT NULL, pad char(60) NOT NULL, KEY (k))",
                f"INSERT INTO bench.o{number} {NUMBERS.format(options.rows)}"
                " SELECT i, i * 7919 % 99991, SHA2(i, 256), LEFT(SHA2(i * 7, 256), 60) FROM r",
            )
        file = config_file(server, folder)
        command = ["bench", "snapshot", "--json", "--runs", str(options.runs)]
        subprocess.run(
            [sys.executable, "-m", "spark_repl", *command, "--config", str(file)], check=True
        )


if __name__ == "__main__":
    main()
