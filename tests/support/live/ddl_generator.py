"""Random tables and statements that alter them: most are accepted by a server, some are not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from spark_repl.tables.column import ColumnType

if TYPE_CHECKING:
    from spark_repl.tables.source_table import SourceTable

TYPES = (
    "INT", "BIGINT UNSIGNED", "TINYINT", "MEDIUMINT", "SMALLINT UNSIGNED ZEROFILL", "BOOL",
    "DECIMAL(10,2)", "DECIMAL(40,5) UNSIGNED", "FLOAT", "DOUBLE", "FLOAT(30)", "BIT(9)", "YEAR",
    "DATE", "TIME(2)", "DATETIME", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP(3) NULL",
    "CHAR(7)", "VARCHAR(12)", "VARCHAR(300)", "CHAR(5) CHARACTER SET latin1", "VARCHAR(20) ASCII",
    "VARCHAR(9) COLLATE utf8mb4_bin", "BINARY(4)", "VARBINARY(11)", "TINYTEXT", "TEXT",
    "MEDIUMTEXT CHARACTER SET ucs2", "TEXT(70)", "BLOB", "LONGBLOB", "JSON", "NCHAR(4)",
    "ENUM('a','b,)','c''d')", "SET('x','y')", "VARCHAR(30) CHARACTER SET utf8mb3", "LONG VARCHAR",
    "CHAR(3) BINARY", "NATIONAL VARCHAR(6)", "SERIAL", "VECTOR(3)",
)  # fmt: skip
_TEXT = ("CHAR", "VARCHAR", "NCHAR", "NATIONAL")
_NUMBERS = ("INT", "BIGINT", "TINYINT", "MEDIUMINT", "SMALLINT", "DECIMAL", "FLOAT", "DOUBLE")
_ODD = ("a b", "x`y", "d.t", "select", "😀", "Ü", "first", "after", "key", "Mixed", "a'b", 'q"q')
_CHARSETS = ("utf8mb4", "latin1", "utf8mb3", "ucs2", "latin2 COLLATE latin2_bin", "binary", "gbk")
_OPTIONS = (
    "ENGINE=InnoDB", "COMMENT='drop column a, add b'", "ROW_FORMAT=DYNAMIC", "AUTO_INCREMENT=70",
    "FORCE", "STATS_PERSISTENT=1", "ALGORITHM=COPY", "LOCK=DEFAULT", "MAX_ROWS=7",
)  # fmt: skip


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Generator:
    """``create`` makes CREATE TABLE, ``alter`` a statement for a table as it is."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._number = 0

    def name(self) -> str:
        self._number += 1
        if self.rng.random() < 0.1:
            return self.rng.choice(_ODD)
        return self.rng.choice(("a", "b", "c", "d", "e", "val", "n")) + str(self._number % 13)

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def column(self, others: list[str]) -> str:
        """A column's type and attributes."""
        kind = self.rng.choice(TYPES)
        if kind == "SERIAL":
            kind = kind if self._chance(0.2) else "INT AUTO_INCREMENT UNIQUE"
            return kind if self._chance(0.3) else "INT"
        if others and self._chance(0.1):
            stored = self.rng.choice(("", " VIRTUAL", " STORED"))
            other = quoted(self.rng.choice(others))
            expression = self.rng.choice((other, f"length({other})", "7", f"concat({other}, 'x')"))
            return f"{self.rng.choice(('INT', 'VARCHAR(99)'))} AS ({expression}){stored}"
        text = [kind]
        if self._chance(0.4):
            text.append(self.rng.choice(("NOT NULL", "NOT NULL", "NULL")))
        if self._chance(0.35):
            text.append(self._default(kind))
        if self._chance(0.12):
            text.append(
                self.rng.choice(("UNIQUE", "UNIQUE KEY", "COMMENT 'FIRST, x'", "INVISIBLE"))
            )
        return " ".join(text)

    def _default(self, kind: str) -> str:
        start = kind.split("(")[0].split(" ")[0]
        if start in _NUMBERS:
            return self.rng.choice(("DEFAULT 7", "DEFAULT '3'", "DEFAULT (2 + 1)", "DEFAULT (5)"))
        if start in _TEXT:
            return self.rng.choice(("DEFAULT 'x'", "DEFAULT ''", "DEFAULT (concat('a', 'b'))"))
        if start in ("DATETIME", "TIMESTAMP"):
            digits = kind[kind.find("(") : kind.find(")") + 1] if "(" in kind else ""
            now = f"CURRENT_TIMESTAMP{digits}"
            return self.rng.choice(
                (
                    f"DEFAULT {now}",
                    f"DEFAULT {now} ON UPDATE {now}",
                    "DEFAULT '2020-02-03 04:05:06'",
                )
            )
        return {
            "DATE": "DEFAULT '2021-03-04'", "JSON": "DEFAULT (JSON_OBJECT())",
            "BIT": "DEFAULT b'101'", "TEXT": "DEFAULT ('lit')", "ENUM": "DEFAULT 'a'",
            "TIME": "DEFAULT '01:02:03'",
            "YEAR": "DEFAULT 1999", "BINARY": "DEFAULT 0x01",
        }.get(start, "")  # fmt: skip

    def key(self, names: list[str]) -> str:
        kind = self.rng.choice(("UNIQUE", "UNIQUE KEY", "INDEX", "KEY", "UNIQUE INDEX"))
        if self._chance(0.08) and names:
            return f"FOREIGN KEY ({quoted(self.rng.choice(names))}) REFERENCES par (id)"
        label = quoted(f"k{self.rng.randrange(6)}") if self._chance(0.5) else ""
        constraint = "CONSTRAINT cc " if kind.startswith("UNIQUE") and self._chance(0.1) else ""
        parts = self._parts(names)
        if self._chance(0.04):
            label, constraint, parts = "", "", f"{parts}, (1 + 1)"
        return f"{constraint}{kind} {label} ({parts})"

    def _parts(self, names: list[str]) -> str:
        chosen = self.rng.sample(names, min(len(names), self.rng.choice((1, 1, 2, 3))))
        parts = [quoted(n) + ("(3)" if self._chance(0.12) else "") for n in chosen]
        return ", ".join(parts)

    def create(self, table: str) -> str:
        names: list[str] = []
        elements = []
        for _ in range(self.rng.randint(2, 6)):
            name = self.name()
            if name.lower() not in map(str.lower, names):
                elements.append(f"{quoted(name)} {self.column(names)}")
                names.append(name)
        if self._chance(0.4):
            elements.append(f"PRIMARY KEY ({quoted(self.rng.choice(names))})")
        elements += [self.key(names) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        options = f" CHARACTER SET {self.rng.choice(_CHARSETS)}" if self._chance(0.4) else ""
        return f"CREATE TABLE {quoted(table)} ({', '.join(elements)}){options}"

    def alter(self, table: SourceTable) -> str:
        names = [column.name for column in table.columns]
        indexes = [i.name for i in (*(table.unique or ()), *(table.indexes or ()))]
        way = self.rng.random()
        me = quoted(table.table)
        if way < 0.05 and indexes:
            return f"DROP INDEX {quoted(self.rng.choice(indexes))} ON {me}"
        if way < 0.1:
            unique = self.rng.choice(("UNIQUE ", "UNIQUE ", ""))
            new = quoted(f"i{self._number}")
            return f"CREATE {unique}INDEX {new} ON {me} ({self._parts(names)})"
        count = self.rng.choice((1, 1, 1, 2, 2, 3, 5))
        actions = [self._action(names, indexes, table) for _ in range(count)]
        if self._chance(0.15):
            actions.append(self.rng.choice(_OPTIONS))
        if self._chance(0.06):
            actions[-1] = f"/*!50700 {actions[-1]} */"
        partition = " REMOVE PARTITIONING" if self._chance(0.02) else ""
        return f"ALTER TABLE {me} {', '.join(actions)}{partition}"

    def _place(self, names: list[str]) -> str:
        way = self.rng.random()
        return (
            " FIRST"
            if way < 0.2
            else (f" AFTER {quoted(self.rng.choice(names))}" if way < 0.45 else "")
        )

    def _action(self, names: list[str], indexes: list[str], table: SourceTable) -> str:
        name, new = quoted(self.rng.choice(names)), quoted(self.name())
        word, first = self.rng.choice(("", "COLUMN ")), quoted(names[0])
        # Behind CONVERT to ucs2 9.7.4 logs an ENUM's values in the character set that it had.
        choices = {ColumnType.ENUM, ColumnType.SET} & {column.type for column in table.columns}
        sets = [n for n in _CHARSETS if not choices or n not in ("ucs2", "binary")]
        made = {
            "add": f"ADD {word}{new} {self.column(names)}{self._place(names)}",
            "several": f"ADD ({new} {self.column([])}, {quoted(self.name())} {self.column([])})",
            "drop": f"DROP {word}{name}",
            "modify": f"MODIFY {word}{name} {self.column([])}{self._place(names)}",
            "change": f"CHANGE {word}{name} {new} {self.column([])}{self._place(names)}",
            "rename": f"RENAME COLUMN {name} TO {new}",
            "key": f"ADD {self.key(names)}",
            "primary": f"ADD PRIMARY KEY ({self._parts(names)})",
            "set": f"ALTER {word}{name} {self.rng.choice(('SET DEFAULT 7', 'DROP DEFAULT'))}",
            "visible": f"ALTER {word}{name} SET {self.rng.choice(('', 'IN'))}VISIBLE",
            "convert": f"CONVERT TO CHARACTER SET {self.rng.choice(sets)}",
            "charset": f"DEFAULT CHARACTER SET {self.rng.choice(_CHARSETS)}",
            "option": self.rng.choice(_OPTIONS),
            "check": f"ADD CHECK ({name} IS NULL OR TRUE)",
            "swap": f"RENAME COLUMN {name} TO {first}, RENAME COLUMN {first} TO {name}",
        }  # fmt: skip
        if indexes:
            index = quoted(self.rng.choice(indexes))
            made["drop index"] = f"DROP {self.rng.choice(('INDEX', 'KEY'))} {index}"
        # A 9.7.4 server that has renamed an index over an expression may end at the next INSERT.
        if indexes and not index.startswith("`functional"):
            made["rename index"] = f"RENAME INDEX {index} TO {quoted('r' + str(self._number))}"
        if table.has_primary:
            made["drop primary"] = "DROP PRIMARY KEY"
        if table.foreign_keys:
            made["drop foreign"] = f"DROP FOREIGN KEY {quoted(table.foreign_keys[0].name)}"
        weights = {"add": 5, "drop": 2, "modify": 3, "change": 2, "key": 3, "rename": 2}
        chosen = self.rng.choices(list(made), [weights.get(k, 1) for k in made])[0]
        return made[chosen]
