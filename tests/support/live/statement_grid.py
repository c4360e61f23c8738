"""A grid of statements that change tables: class of statement x column type x state of the table.
Each cell is a table of its own: made, filled, altered, and changed by rows again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TYPES = {
    "tinyint": ("5", "-7"), "int": ("70000", "-1"),
    "bigint unsigned": ("18000000000000000000", "3"), "decimal(10,2)": ("12.344", "-0.05"),
    "float": ("1.25", "-3e10"), "double": ("0.1", "-1e300"), "varchar(20)": ("'text'", "'größer'"),
    "char(12)": ("'c'", "'Ä'"), "text": ("'long'", "REPEAT('ä', 90)"),
    "varchar(30) character set latin1": ("'é'", "'plain'"), "binary(4)": ("0x0102", "'abcd'"),
    "varbinary(9)": ("0x00ff", "'x'"), "blob": ("0xdead", "'blob'"),
    "date": ("'2024-02-29'", "'1969-12-31'"),
    "datetime": ("'2024-02-29 23:59:59'", "'1000-01-01'"),
    "datetime(6)": ("'2001-02-03 04:05:06.000007'", "'1970-01-01 00:00:00.5'"),
    "timestamp": ("'2020-06-01 12:00:00'", "'2038-01-19 03:14:07'"),
    "time(3)": ("'-01:02:03.5'", "'10:11:12.125'"), "year": ("2024", "1999"),
    "enum('a','b','c')": ("'b'", "'c'"), "set('a','b','c')": ("'c,a'", "''"),
    "json": ("'{\"z\":1,\"k\": [1,2]}'", "'true'"), "bit(1)": ("b'1'", "b'0'"),
    "bit(9)": ("b'100000001'", "b'11'"), "point": ("POINT(1, 2)", "POINT(-0.5, 3e7)"),
}  # fmt: skip
"""type -> two values"""
_WIDER = {
    "tinyint": "int", "int": "bigint", "decimal(10,2)": "decimal(20,4)", "float": "double",
    "varchar(20)": "varchar(300)", "char(12)": "varchar(40)", "text": "mediumtext",
    "varchar(30) character set latin1": "varchar(90) character set latin1", "binary(4)":
    "binary(6)", "varbinary(9)": "varbinary(300)", "blob": "longblob", "date": "datetime(3)",
    "datetime": "datetime(6)", "timestamp": "timestamp(4)", "time(3)": "time(6)",
    "enum('a','b','c')": "enum('a','b','c','d')", "set('a','b','c')": "set('a','b','c','d','e')",
    "bit(1)": "bit(8)", "bit(9)": "bit(64)",
}  # fmt: skip
_NARROWER = {
    "int": "smallint unsigned", "bigint unsigned": "bigint", "decimal(10,2)": "decimal(6,1)",
    "double": "float", "varchar(20)": "varchar(9)", "text": "tinytext", "blob": "varbinary(4)",
    "datetime(6)": "datetime", "timestamp": "date", "time(3)": "time", "datetime": "date",
    "enum('a','b','c')": "enum('c','b')", "set('a','b','c')": "set('c','a')", "bit(9)": "bit(1)",
    "year": "smallint", "json": "text", "varchar(30) character set latin1": "varchar(20)",
}  # fmt: skip

STATEMENTS = {
    "add": "ALTER TABLE {t} ADD COLUMN n {T}",
    "add with default": "ALTER TABLE {t} ADD n {T} DEFAULT {v} AFTER id",
    "add not null": "ALTER TABLE {t} ADD n {T} NOT NULL",
    "add first": "ALTER TABLE {t} ADD n {T} FIRST, ADD (n2 {T}, n3 INT DEFAULT 3)",
    "add stored": "ALTER TABLE {t} ADD n {T} AS (e) STORED",
    "add virtual": "ALTER TABLE {t} ADD n {T} AS (e) VIRTUAL AFTER id",
    "add computed default": "ALTER TABLE {t} ADD n {T} DEFAULT ({v})",
    "add invisible": "ALTER TABLE {t} ADD n {T} INVISIBLE, ALTER c SET INVISIBLE",
    "add numbered": "ALTER TABLE {t} ADD n INT AUTO_INCREMENT UNIQUE",
    "drop": "ALTER TABLE {t} DROP COLUMN c",
    "drop and add": "ALTER TABLE {t} DROP c, ADD c {T}",
    "rename column": "ALTER TABLE {t} RENAME COLUMN c TO d",
    "swap columns": "ALTER TABLE {t} RENAME COLUMN c TO e, RENAME COLUMN e TO c",
    "change and move": "ALTER TABLE {t} CHANGE c d {T} FIRST",
    "move": "ALTER TABLE {t} MODIFY e {T} NOT NULL AFTER id",
    "make not null": "ALTER TABLE {t} MODIFY c {T} NOT NULL",
    "make nullable": "ALTER TABLE {t} MODIFY e {T} NULL",
    "set default": "ALTER TABLE {t} ALTER c SET DEFAULT {v}",
    "widen": "ALTER TABLE {t} MODIFY c {wider}, MODIFY e {wider} NOT NULL",
    "narrow": "ALTER TABLE {t} MODIFY c {narrower}",
    "to text": "ALTER TABLE {t} MODIFY e VARCHAR(200) NOT NULL",
    "to bytes": "ALTER TABLE {t} MODIFY e BLOB",
    "to number": "ALTER TABLE {t} MODIFY e DECIMAL(40,10)",
    "to moment": "ALTER TABLE {t} MODIFY e DATETIME(2)",
    "key dropped": "ALTER TABLE {t} DROP PRIMARY KEY, MODIFY id INT",
    "key changed": "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (e, id)",
    "key added": "ALTER TABLE {t} ADD PRIMARY KEY (id, e, p)",
    "key of the type": "ALTER TABLE {t} DROP PRIMARY KEY, ADD UNIQUE u (e, id), ADD UNIQUE (c)",
    "key column changed": "ALTER TABLE {t} MODIFY id BIGINT NOT NULL FIRST, ADD KEY (e)",
    "unique index": "CREATE UNIQUE INDEX u ON {t} (e, id)",
    "index": "CREATE INDEX i ON {t} (c)",
    "character set": "ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb3",
    "latin1": "ALTER TABLE {t} CONVERT TO CHARACTER SET latin1, COMMENT 'all of it'",
    "engine": "ALTER TABLE {t} ENGINE=MyISAM, ROW_FORMAT=DYNAMIC",
    "checks": "ALTER TABLE {t} ADD CONSTRAINT k CHECK (id > -5), AUTO_INCREMENT = 70, FORCE",
    "partitions": "ALTER TABLE {t} PARTITION BY KEY (id) PARTITIONS 2",
    "rename": "RENAME TABLE {t} TO {t}_x, {t}_x TO {t}_r",
    "rename and change": "ALTER TABLE {t} DROP c, RENAME TO {t}_r, ADD n {T} DEFAULT {v}",
    "truncate": "TRUNCATE TABLE {t}",
    "drop and create": "DROP TABLE {t}; CREATE TABLE {t} (id INT PRIMARY KEY, e {T}, p INT, n {T})",
    "like": "CREATE TABLE {t}_r LIKE {t}; INSERT INTO {t}_r SELECT * FROM {t}",
    "select": "CREATE TABLE {t}_r (PRIMARY KEY (id)) SELECT id, p, e, c AS d FROM {t}",
    "executable comment": "/*!50000 ALTER TABLE {t} */ ADD n {T},/*!80000 DROP c,*/ ADD m INT",
    "several": "ALTER TABLE {t} DROP c, ADD (n {T}), CHANGE e d {T}, ADD m {T} DEFAULT {v} FIRST",
}  # fmt: skip
"""class -> the statement, or several"""
_KEYED = ("key dropped", "key changed", "key of the type")
_NAMES = ("rename", "rename and change", "like", "select")  # the result is called {t}_r


@dataclass(frozen=True)
class State:
    """``make``: the text after the columns; ``rows``: whether there are some; ``deleted``: some of
    them in commits of their own, so that files have marked rows; ``options``: the applier's."""

    key: str = "PRIMARY KEY"
    make: str = ""
    rows: bool = True
    deleted: bool = False
    prepared: bool = False
    copied: bool = False
    mapping: bool = True
    vectors: bool = True
    feed: bool = False
    by_column: bool = False


STATES = {
    "filled": State(),
    "empty": State(rows=False),
    "without a key": State(key="", deleted=True),
    "marked rows": State(deleted=True),
    "files written again": State(deleted=True, vectors=False, mapping=False),
    "prepared XA": State(prepared=True),
    "partitioned": State(by_column=True, deleted=True),
    "partitions of the source": State(make=" PARTITION BY HASH (id) PARTITIONS 3"),
    "change data feed": State(feed=True, deleted=True),
    "being copied": State(copied=True),
}


@dataclass(frozen=True)
class Cell:
    """``table``: its name; ``result``: the name of the table to compare after the statement."""

    statement: str
    sql_type: str
    state: str
    table: str

    @property
    def result(self) -> str:
        return f"{self.table}_r" if self.statement in _NAMES else self.table

    @property
    def is_unknown(self) -> bool:
        """Whether no log tells what the rows that are there become."""
        point = (self.statement, self.sql_type) == ("add computed default", "point")
        return (self.statement == "add numbered" or point) and STATES[self.state].rows

    def __str__(self) -> str:
        return f"{self.statement} x {self.sql_type} x {self.state}"

    def made(self) -> list[list[str]]:
        """Transactions that make and fill the table."""
        state, (one, two) = STATES[self.state], TYPES[self.sql_type]
        t, kind = self.table, self.sql_type
        made = [[f"CREATE TABLE {t} (id INT {state.key}, c {kind}, e {kind} NOT NULL, p INT)"
                 f"{state.make}"]]  # fmt: skip
        if state.rows:
            # Of the column c only some classes want values that are all different, or no NULL.
            absent = one if self.statement == "make not null" else "NULL"
            listed = (
                f"(1, {one}, {two}, 0), (2, {absent}, {one}, 1), (3, {two}, {two}, 0),"
                f" (4, NULL, {one}, NULL), (5, NULL, {two}, 0)"
            )
            made.append([f"INSERT INTO {t} VALUES {listed}"])
            if self.statement == "make not null":
                made.append([f"UPDATE {t} SET c = {two} WHERE c IS NULL"])
        if state.rows and state.deleted:
            made += [[f"DELETE FROM {t} WHERE id = 4"],
                     [f"UPDATE {t} SET p = 5 WHERE id = 5", f"UPDATE {t} SET c = {one} WHERE id = 3"
                      if self.statement != "key of the type" else "DO 1"]]  # fmt: skip
        return made

    def statements(self) -> list[str]:
        one, _ = TYPES[self.sql_type]
        wider, narrower = _WIDER.get(self.sql_type, ""), _NARROWER.get(self.sql_type, "")
        text = STATEMENTS[self.statement].format(
            t=self.table, T=self.sql_type, v=f"({one})", wider=wider, narrower=narrower
        )
        # A literal is one only without brackets.
        if self.statement != "set default":
            text = text.replace(f"DEFAULT ({one})", f"DEFAULT {one}")
        if "computed" in self.statement:
            text = text.replace(f"DEFAULT {one}", f"DEFAULT ({one})")
        return text.split("; ")

    def changed(self) -> list[list[str]]:
        """Transactions behind it; those that the server refuses are none."""
        t, (one, two) = self.result, TYPES[self.sql_type]
        return [
            [f"INSERT INTO {t} (id, p, {{e}}) VALUES (11, 1, {one}), (12, 5, {two})"],
            [f"UPDATE {t} SET p = 7 WHERE id IN (1, 11)", f"DELETE FROM {t} WHERE id = 2"],
            *([f"UPDATE {t} SET {name} = {two} WHERE id = 3"] for name in ("c", "n", "d", "m")),
        ]


def cells(state: str) -> Iterator[Cell]:
    """All of a state that make sense."""
    number = 0
    for sql_type in TYPES:
        for statement, text in STATEMENTS.items():
            number += 1
            absent = ("{wider}" in text and sql_type not in _WIDER) or (
                "{narrower}" in text and sql_type not in _NARROWER
            )
            keyless = not STATES[state].key
            unfit = keyless if statement in _KEYED else statement == "key added" and not keyless
            # Rows that are there get a zero date, which stops by name.
            zero = statement == "add not null" and sql_type == "timestamp" and STATES[state].rows
            if not (absent or unfit or zero):
                yield Cell(statement, sql_type, state, f"t{number}")
