"""A steady load for ``spark-repl bench latency``: transactions of one or more rows at a given rate.

    python -m tests.bench.steady_load --port 3306 --user root --rate 500 --seconds 120 [--rows N]

Four clients; makes the table bench.steady if it isn't there. Prints the rate that was reached.
"""

from __future__ import annotations

import argparse
import random
import threading
import time

import pymysql

_CLIENTS, _KEYS = 4, 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3306)
    parser.add_argument("--user", default="root")
    parser.add_argument("--password", default="")
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rows", type=int, default=1, help="of a transaction, in one statement")
    options = parser.parse_args()
    values = ", ".join(["(%s, 1, 'x')"] * options.rows)

    def connect() -> pymysql.Connection:
        return pymysql.connect(
            host=options.host, port=options.port, user=options.user, password=options.password,
            autocommit=True,
        )  # fmt: skip

    with connect() as first, first.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS bench")
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS bench.steady (id INT PRIMARY KEY, n INT, pad CHAR(60))"
        )
    done = [0] * _CLIENTS
    began = time.monotonic()

    def client(number: int) -> None:
        with connect() as connection, connection.cursor() as cursor:
            while (now := time.monotonic()) - began < options.seconds:
                due = began + done[number] * _CLIENTS / options.rate
                if due > now:
                    time.sleep(due - now)
                cursor.execute(
                    f"INSERT INTO bench.steady VALUES {values} AS new"
                    " ON DUPLICATE KEY UPDATE n = steady.n + 1",
                    sorted(random.sample(range(_KEYS), options.rows)),
                )
                done[number] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{sum(done) / (time.monotonic() - began):.0f} transactions/s")


if __name__ == "__main__":
    main()
