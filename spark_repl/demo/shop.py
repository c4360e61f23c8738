"""Shop: a small database for the live demo, and clients that use it."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from ..runtime.threads import thread
from ..source.connection import connect

if TYPE_CHECKING:
    from ..config import Source

_TABLES = {
    "customer": "id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL,"
    " city VARCHAR(80), since DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "product": "id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL,"
    " price DECIMAL(8,2) NOT NULL, stock INT NOT NULL",
    "orders": "id BIGINT AUTO_INCREMENT PRIMARY KEY, customer BIGINT NOT NULL,"
    " state ENUM('open','paid','sent') NOT NULL DEFAULT 'open',"
    " at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), KEY (customer)",
    "order_line": "orders BIGINT NOT NULL, line INT NOT NULL, product BIGINT NOT NULL,"
    " amount INT NOT NULL, price DECIMAL(8,2) NOT NULL, PRIMARY KEY (orders, line)",
}
_FIRST = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Frances", "Radia", "Katherine")
_LAST = ("Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Knuth", "Allen", "Perlman")
_CITIES = ("London", "Paris", "Berlin", "Rome", "Madrid", "Vienna", "Oslo", "Lisbon", "Prague")
_ADJECTIVES = ("Red", "Blue", "Small", "Large", "Light", "Heavy", "Plain", "Fine")
_THINGS = ("Cup", "Bowl", "Lamp", "Chair", "Table", "Shelf", "Basket", "Clock", "Vase")
_CUSTOMERS, _ORDERS, _LINES_MAX = 1000, 4000, 3
_BATCH = 500
SEED = 46


class Shop:
    """A database of the demo. ``create`` and ``fill`` make it, ``sell`` changes its rows."""

    def __init__(self, source: Source, database: str) -> None:
        self._database, self._random = database, random.Random(SEED)
        self._prices = list[float]()
        self.connection = session(source)

    def query(self, statement: str, values: Any = None) -> Any:
        """Return the rows of a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall()

    def create(self) -> None:
        """Create the empty database."""
        self.query(f"CREATE DATABASE {quoted(self._database)} CHARACTER SET utf8mb4")

    def fill(self) -> int:
        """Create the tables with their rows, and return the number of rows."""
        self.query(f"USE {quoted(self._database)}")
        for name, columns in _TABLES.items():
            self.query(f"CREATE TABLE {name} ({columns})")
        pick = self._random.choice
        self._insert("customer (name, city)", [
            (f"{pick(_FIRST)} {pick(_LAST)}", pick(_CITIES)) for _ in range(_CUSTOMERS)
        ])  # fmt: skip
        products = [f"{color} {thing}" for color in _ADJECTIVES for thing in _THINGS]
        self._prices = [round(self._random.uniform(2, 400), 2) for _ in products]
        priced = enumerate(zip(products, self._prices, strict=True), 1)
        self._insert("product VALUES", [(n, *named, 500) for n, named in priced], values="")
        numbers = range(1, _ORDERS + 1)  # given, as a server may number with larger steps
        orders = [(n, self._random.randint(1, _CUSTOMERS), "sent") for n in numbers]
        self._insert("orders (id, customer, state)", orders)
        lines = [line for order in numbers for line in self._lines(order)]
        self._insert("order_line VALUES", lines, values="")
        return len(orders) + len(products) + _CUSTOMERS + len(lines)

    def sell(self) -> None:
        """Commit one transaction: a new order, a payment, or a delivery."""
        way = self._random.random()
        if way < 0.25:
            old, new = self._random.choice((("open", "paid"), ("paid", "sent")))
            self.query("UPDATE orders SET state = %s WHERE state = %s LIMIT 2", (new, old))
            return
        self.query("BEGIN")
        with self.connection.cursor() as cursor:
            buyer = self._random.randint(1, _CUSTOMERS)
            cursor.execute("INSERT INTO orders (customer) VALUES (%s)", (buyer,))
            lines = self._lines(cursor.lastrowid)
            cursor.executemany("INSERT INTO order_line VALUES (%s, %s, %s, %s, %s)", lines)
            for _, _, product, amount, _ in lines:
                cursor.execute(
                    "UPDATE product SET stock = IF(stock < %s, 500, stock - %s) WHERE id = %s",
                    (amount, amount, product),
                )
        self.query("COMMIT")

    def close(self) -> None:
        self.connection.close()

    def _lines(self, order: int) -> list[tuple[Any, ...]]:
        count = self._random.randint(1, _LINES_MAX)
        chosen = [self._random.randrange(len(self._prices)) for _ in range(count)]
        return [
            (order, number + 1, product + 1, self._random.randint(1, 4), self._prices[product])
            for number, product in enumerate(chosen)
        ]

    def _insert(self, into: str, rows: list[tuple[Any, ...]], values: str = " VALUES") -> None:
        row = "(" + ", ".join(["%s"] * len(rows[0])) + ")"
        for begin in range(0, len(rows), _BATCH):
            part = rows[begin : begin + _BATCH]
            flat = [value for values_of in part for value in values_of]
            self.query(f"INSERT INTO {into}{values} {', '.join([row] * len(part))}", flat)


class Load:
    """A thread that uses the shop until ``stop``. ``per_s``: its transactions a second, at most;
    ``error``: what ended it, if anything did."""

    def __init__(self, shop: Shop, per_s: float) -> None:
        self._shop, self.per_s, self.error = shop, per_s, ""
        self._ended = threading.Event()
        self._thread = thread(self._run, "load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(10)
        self._shop.close()

    def _run(self) -> None:
        try:
            while not self._ended.wait(1 / self.per_s):
                self._shop.sell()
        except self._shop.connection.Error as error:
            self.error = str(error)


def session(source: Source) -> Any:
    """Return a connection that may write. Raise as ``connect``."""
    connection = connect(source)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION READ WRITE")
        cursor.execute("SET SESSION sql_mode = DEFAULT")
    return connection


def quoted(name: str) -> str:
    """Return a name as an identifier of MySQL."""
    return f"`{name.replace('`', '``')}`"
