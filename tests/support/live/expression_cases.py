"""Columns with values at the edges, and expressions over them: a grid, and random ones."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

_INTS = ["NULL", "0", "1", "-1", "7", "-128", "127", "12345", "2147483647", "-2147483648"]
_TEXTS = ["NULL", "''", "' '", "'a'", "'A'", "'abc'", "' abc '", "'aXbXc'", "'12'", "'-3.5'"]
_TEXTS += ["'12abc'", "'äöü'", "'Größe'", "'€'", "'xx'", "'2024-02-29'", "'0'", "'abcabc'"]
COLUMNS = {
    "t": ("TINYINT", _INTS),
    "n": ("INT", _INTS),
    "b": ("BIGINT", [*_INTS, "9223372036854775807", "-9223372036854775808", "4611686018427387904"]),
    "u": ("BIGINT UNSIGNED", ["NULL", "0", "1", "255", "9223372036854775808",
                              "18446744073709551615"]),
    "w": ("INT UNSIGNED", ["NULL", "0", "3", "4294967295", "70000"]),
    "d": ("DECIMAL(10,2)", ["NULL", "0", "0.01", "-0.05", "12.34", "-99999999.99", "2.50", "3"]),
    "e": ("DECIMAL(20,6)", ["NULL", "0", "1.000001", "-7.5", "12345678901234.567891", "0.333333"]),
    "f": ("DOUBLE", ["NULL", "0", "-0e0", "0.5", "-2.5", "1e10", "123.456", "1e-5", "3"]),
    "g": ("FLOAT", ["NULL", "0", "1.5", "0.1", "-3.25", "16777217"]),
    "y": ("YEAR", ["NULL", "0", "1970", "2024", "2155"]),
    "p": ("BIT(5)", ["NULL", "0", "1", "31"]),
    "s": ("VARCHAR(20)", [*_TEXTS, "'😀x'"]),
    "l": ("VARCHAR(20) CHARACTER SET latin1", _TEXTS),
    "c": ("CHAR(8)", _TEXTS),
    "o": ("TEXT", _TEXTS),
    "x": ("VARBINARY(20)", ["NULL", "''", "'abc'", "X'00FF'", "'a '", "'12'"]),
    "da": ("DATE", ["NULL", "'2024-02-29'", "'1999-12-31'", "'1969-07-20'", "'9999-12-31'",
                    "'1000-01-01'", "'2023-01-31'"]),
    "dt": ("DATETIME", ["NULL", "'2024-02-29 12:34:56'", "'1999-12-31 23:59:59'",
                        "'1969-12-31 00:00:00'", "'9999-12-31 23:59:59'", "'2023-08-31 01:02:03'"]),
    "dm": ("DATETIME(6)", ["NULL", "'2024-02-29 12:34:56.789012'", "'1999-12-31 23:59:59.999999'",
                           "'1960-01-01 00:00:00.000001'"]),
    "tm": ("TIME(3)", ["NULL", "'12:34:56.789'", "'-01:02:03.5'", "'838:59:59'", "'00:00:00'"]),
    "j": ("JSON", ["NULL", "'5'", "'\"a\"'", '\'{"a": 1, "b": [1, 2.5, "x"], "c": null}\'',
                   "'[]'", '\'{"a": {"b": "q\\\\"ü"}, "n": -12}\'', "'[10, [20, 30]]'", "'true'"]),
    "m": ("ENUM('a','b','xx')", ["NULL", "'a'", "'b'", "'xx'"]),
    "ts": ("TIMESTAMP NULL", ["NULL", "'2024-02-29 12:34:56'", "'1970-01-02 00:00:00'"]),
}  # fmt: skip
_NUMBERS = ("t", "n", "b", "u", "w", "d", "e", "f", "g", "y", "p")
_WHOLE = ("t", "n", "b", "u", "w", "y", "p")
_EXACT = (*_WHOLE, "d", "e")
_LETTERS = ("s", "l", "c", "o", "x")
_MOMENTS = ("da", "dt", "dm")
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Case:
    """``kind``: STORED, VIRTUAL or DEFAULT."""

    expression: str
    target: str
    kind: str = "STORED"

    @property
    def clause(self) -> str:
        if self.kind == "DEFAULT":
            return f"{self.target} DEFAULT ({self.expression})"
        return f"{self.target} AS ({self.expression}) {self.kind}"

    @property
    def words(self) -> set[str]:
        """The columns of the expression, and words of literals."""
        return set(_WORD.findall(self.expression))


def _of_numbers() -> Iterator[tuple[str, tuple[str, ...]]]:
    targets = ("BIGINT", "DECIMAL(50,12)", "DOUBLE")
    for operator, (a, b) in product(("+", "-", "*", "/", "%", "DIV"), product(_NUMBERS, _NUMBERS)):
        yield f"{a} {operator} {b}", ("DOUBLE" if {a, b} & {"f", "g"} else "DECIMAL(50,12)",)
    for a in _NUMBERS:
        for form in ("-{}", "ABS({})", "{} + 1", "{} * 1.5", "{} / 3", "{} % 7", "1 - {}", "2 * {}",
                     "{} + 1e0", "{} / 0", "7 DIV {}", "{} DIV 2", "MOD({}, 3)"):  # fmt: skip
            yield form.format(a), targets
        for form in ("FLOOR({})", "CEIL({})", "ROUND({})", "ROUND({}, 1)", "TRUNCATE({}, 1)",
                     "SIGN({})", "SQRT({})", "POW({}, 2)", "TRUNCATE({}, 0)", "ROUND({}, 4)",
                     "CAST({} AS SIGNED)", "CAST({} AS UNSIGNED)", "CAST({} AS DECIMAL(12,1))",
                     "CAST({} AS DECIMAL)", "{} IS NULL", "ISNULL({})", "NOT {}", "{} <=> NULL",
                     "{} IN (0, 1, 12.34)", "{} BETWEEN -1 AND 5", "{} NOT IN (1, NULL)",
                     "{} AND 1", "{} OR NULL", "{} XOR 1", "{} IS TRUE", "{} IS NOT FALSE",
                     "GREATEST({}, 2)", "LEAST({}, 1.5)", "NULLIF({}, 1)", "COALESCE({}, -1)",
                     "IFNULL({}, 0.5)", "IF({} > 1, {}, 5)", "CASE {} WHEN 1 THEN 10 ELSE 20 END",
                     "CASE WHEN {} < 0 THEN -1 WHEN {} > 0 THEN {} END"):  # fmt: skip
            yield form.replace("{}", a), ("DECIMAL(50,12)", "INT", "VARCHAR(60)")
        for form in ("CAST({} AS CHAR)", "CONCAT({}, '!')", "HEX({})", "LENGTH({})", "CRC32({})",
                     "SHA2({}, 256)", "LPAD({}, 9, '0')", "LEFT({}, 2)"):  # fmt: skip
            yield form.format(a), ("VARCHAR(80)",)
    for a, b in product(_WHOLE, _WHOLE):
        for operator in ("&", "|", "^", "<<", ">>"):
            yield f"{a} {operator} {b}", ("BIGINT UNSIGNED",)
    for a, b in product(_NUMBERS, _NUMBERS):
        for operator in ("=", "<", ">=", "<>", "<=>"):
            yield f"{a} {operator} {b}", ("TINYINT",)
        yield f"IFNULL({a}, {b})", ("DECIMAL(50,12)",)
        yield f"GREATEST({a}, {b})", ("DECIMAL(50,12)",)
    for a in _WHOLE:
        yield f"~{a}", ("BIGINT UNSIGNED",)


def _of_letters() -> Iterator[tuple[str, tuple[str, ...]]]:
    for a in _LETTERS:
        for form in ("UPPER({})", "LOWER({})", "CONCAT({}, '-', {})", "LEFT({}, 2)", "{}",
                     "RIGHT({}, 2)", "RIGHT({}, 0)", "SUBSTR({}, 2)", "SUBSTR({}, -2)",
                     "SUBSTRING({}, 2, 1)", "SUBSTRING({} FROM -3 FOR 2)", "MID({}, 0, 2)",
                     "TRIM({})", "LTRIM({})", "RTRIM({})", "TRIM(BOTH 'a' FROM {})",
                     "TRIM(LEADING 'ab' FROM {})", "REPLACE({}, 'X', '--')", "REVERSE({})",
                     "REPEAT({}, 3)", "REPEAT({}, -1)", "LPAD({}, 5, '*')", "RPAD({}, 5, 'ab')",
                     "LPAD({}, 1, '*')", "CONCAT_WS(',', {}, NULL, 'z')", "IFNULL({}, 'none')",
                     "COALESCE(NULL, {}, 'q')", "HEX({})", "SUBSTRING_INDEX({}, 'X', 1)",
                     "SUBSTRING_INDEX({}, 'X', -2)", "CAST({} AS CHAR(2))", "CAST({} AS BINARY)",
                     "CAST({} AS BINARY(4))", "IF({} = 'abc', 'yes', {})", "CONCAT({}, n)",
                     "CASE {} WHEN 'a' THEN 'one' WHEN 'xx' THEN 'two' END", "CONCAT({}, x)",
                     "NULLIF({}, '')", "CONCAT(da, {})", "LEFT({}, t)", "CONCAT({}, d, dt)",
                     "CONCAT(UPPER({}), 'é')", "SHA2({}, 224)"):  # fmt: skip
            yield form.replace("{}", a), ("VARCHAR(60)", "TEXT", "VARBINARY(80)", "VARCHAR(3)")
        for form in ("LENGTH({})", "CHAR_LENGTH({})", "CRC32({})", "{} = 'abc'", "{} <> ''",
                     "{} IN ('a', 'b')", "{} IS NOT NULL", "{} = {}", "{} + 0", "{} * 2", "{} > 1",
                     "CAST({} AS SIGNED)", "{} AND 1", "{} = x", "IF({}, 1, 0)", "-{}",
                     "CAST({} AS DECIMAL(6,1))", "LENGTH(CONCAT({}, n))"):  # fmt: skip
            yield form.replace("{}", a), ("DOUBLE", "INT", "DECIMAL(20,4)")
    for form in (
        "CONCAT(m, 'y')",
        "m = 'a'",
        "IFNULL(m, 'z')",
        "UPPER(m)",
        "m + 0",
        "m",
        "m IN ('b')",
    ):
        yield form, ("VARCHAR(20)",)
    yield (
        "s",
        ("INT", "VARCHAR(2)", "CHAR(3)", "TEXT", "DOUBLE", "VARCHAR(20) CHARACTER SET latin1"),
    )


def _of_moments() -> Iterator[tuple[str, tuple[str, ...]]]:
    for a in (*_MOMENTS, "ts"):
        for form in ("YEAR({})", "MONTH({})", "DAY({})", "DAYOFMONTH({})", "QUARTER({})",
                     "HOUR({})", "MINUTE({})", "SECOND({})", "MICROSECOND({})", "DAYOFYEAR({})",
                     "WEEKDAY({})", "DAYOFWEEK({})", "TO_DAYS({})", "{} + 0", "WEEK({}, 3)",
                     "YEARWEEK({})", "WEEKOFYEAR({})",
                     "DATEDIFF({}, '2000-01-01')",
                     "DATEDIFF({}, dt)", "{} > '2000-01-01'", "{} = dt", "{} <=> da", "{} IS NULL",
                     "{} BETWEEN '1990-01-01' AND '2024-12-31 23:59:59'", "EXTRACT(MONTH FROM {})",
                     "{} IN ('2024-02-29', '1999-12-31')", "{} < DATE'2010-01-01'"):  # fmt: skip
            yield form.replace("{}", a), ("DECIMAL(30,6)", "INT")
        for form in ("DATE({})", "LAST_DAY({})", "{} + INTERVAL 1 DAY", "{} - INTERVAL 1 MONTH",
                     "DATE_ADD({}, INTERVAL n SECOND)", "DATE_SUB({}, INTERVAL 90 MINUTE)",
                     "{} + INTERVAL t YEAR", "INTERVAL 3 HOUR + {}", "ADDDATE({}, 31)",
                     "{} + INTERVAL 1 QUARTER", "{} + INTERVAL 2 WEEK", "IFNULL({}, '2001-01-01')",
                     "{} + INTERVAL 5 MICROSECOND", "CAST({} AS DATE)", "CAST({} AS DATETIME(2))",
                     "CAST({} AS CHAR)", "COALESCE({}, da)", "IF(n > 0, {}, NULL)", "{}",
                     "GREATEST({}, DATE'2000-01-01')", "NULLIF({}, '1999-12-31')"):  # fmt: skip
            yield (form.replace("{}", a),
                   ("DATE", "DATETIME", "DATETIME(6)", "VARCHAR(40)", "BIGINT"))  # fmt: skip
    for form in ("HOUR(tm)", "MINUTE(tm)", "SECOND(tm)", "MICROSECOND(tm)", "tm > '01:00:00'",
                 "tm + 0", "CONCAT(tm, '')", "IFNULL(tm, TIME'01:00:00')", "tm = tm"):  # fmt: skip
        yield form, ("VARCHAR(30)", "DECIMAL(20,3)")


def _of_json() -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in ("$", "$.a", "$.b", "$.b[1]", "$[0]", "$[1][1]", "$.a.b", '$."n"', "$.c", "$[0].a"):
        yield f"j->'{path}'", ("VARCHAR(80)", "JSON", "INT", "DOUBLE", "DECIMAL(10,2)")
        yield f"j->>'{path}'", ("VARCHAR(80)", "TEXT", "INT", "VARCHAR(3)", "VARBINARY(50)")
        yield f"JSON_LENGTH(j, '{path}')", ("INT",)
        yield f"j->>'{path}' = 'x'", ("INT",)
        yield f"UPPER(j->>'{path}')", ("VARCHAR(80)",)
        yield f"CONCAT(j->'{path}', '!')", ("VARCHAR(80)",)
        yield f"CAST(j->>'{path}' AS UNSIGNED)", ("BIGINT",)
    yield from ((form, ("INT",)) for form in ("JSON_VALID(j)", "JSON_LENGTH(j)", "j IS NULL"))
    yield "JSON_UNQUOTE(j)", ("TEXT",)
    yield "IF(j->'$.a' IS NULL, 'no', j->>'$.a')", ("VARCHAR(80)",)


GRID = {
    "numbers": _of_numbers,
    "letters": _of_letters,
    "moments": _of_moments,
    "documents": _of_json,
}


def grid(name: str) -> list[Case]:
    """Stored all of them, every seventh virtual or a default, too."""
    cases = []
    for number, (expression, targets) in enumerate(GRID[name]()):
        for target in targets:
            cases.append(Case(expression, target))
            if number % 7 in (0, 1):
                cases.append(Case(expression, target, ("VIRTUAL", "DEFAULT")[number % 7]))
    return [case for case in cases if (case.kind, case.target[-4:]) != ("DEFAULT", "TEXT")]


class Composer:
    """Random expressions by ``seed``, of types that go together."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def case(self) -> Case:
        make, targets = self._random.choice((
            (self.number, ("BIGINT", "DECIMAL(60,20)", "DOUBLE", "INT", "DECIMAL(8,3)")),
            (self.text, ("VARCHAR(200)", "TEXT", "VARCHAR(5)", "VARBINARY(300)")),
            (self.moment, ("DATE", "DATETIME(6)", "DATETIME", "VARCHAR(40)")),
            (self.truth, ("TINYINT", "VARCHAR(4)")),
        ))  # fmt: skip
        kind = self._random.choice(("STORED", "VIRTUAL", "STORED", "DEFAULT"))
        target = self._random.choice(targets)
        return Case(make(3), target, "STORED" if target == "TEXT" else kind)

    def _pick(self, *options: str) -> str:
        return self._random.choice(options)

    def number(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.15:
            return self._pick(*_NUMBERS, "1", "0", "-2", "2.50", "1e1", "100", "NULL")
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self._pick(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"({a} % {b})",
            f"({a} DIV {b})", f"ABS({a})", f"-{a}", f"ROUND({a}, 1)", f"FLOOR({a})",
            f"TRUNCATE({a}, 2)", f"IF({self.truth(depth - 1)}, {a}, {b})", f"IFNULL({a}, {b})",
            f"GREATEST({a}, {b})", f"NULLIF({a}, {b})", f"CHAR_LENGTH({self.text(depth - 1)})",
            f"LENGTH({self.text(depth - 1)})", f"YEAR({self.moment(depth - 1)})",
            f"DATEDIFF({self.moment(depth - 1)}, {self.moment(depth - 1)})",
            f"CASE WHEN {self.truth(depth - 1)} THEN {a} ELSE {b} END", f"({a} & {b})",
            f"CAST({a} AS SIGNED)", f"CAST({a} AS DECIMAL(20,3))", f"COALESCE({a}, {b}, 1)",
        )  # fmt: skip

    def text(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.15:
            return self._pick(*_LETTERS, "'abc'", "''", "'X y'", "j->>'$.a'", "m")
        a, b, n = self.text(depth - 1), self.text(depth - 1), self._random.randint(-2, 6)
        return self._pick(
            f"CONCAT({a}, {b})", f"UPPER({a})", f"LOWER({a})", f"LEFT({a}, {n})",
            f"SUBSTR({a}, {n})", f"SUBSTR({a}, {n}, 2)", f"TRIM({a})", f"REPLACE({a}, 'a', {b})",
            f"REVERSE({a})", f"RPAD({a}, {n}, 'z')", f"CONCAT_WS('/', {a}, {b})", f"HEX({a})",
            f"IF({self.truth(depth - 1)}, {a}, {b})", f"IFNULL({a}, {b})", f"RIGHT({a}, {n})",
            f"CONCAT({a}, {self.number(depth - 1)})", f"REPEAT({a}, 2)",
            f"CAST({self.moment(depth - 1)} AS CHAR)", f"SUBSTRING_INDEX({a}, 'b', {n})",
        )  # fmt: skip

    def moment(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.15:
            return self._pick(*_MOMENTS)
        a, n = self.moment(depth - 1), self._random.randint(-20, 40)
        unit = self._pick("DAY", "MONTH", "YEAR", "HOUR", "SECOND", "WEEK")
        return self._pick(
            f"({a} + INTERVAL {n} {unit})", f"DATE({a})", f"LAST_DAY({a})",
            f"IF({self.truth(depth - 1)}, {a}, {self.moment(depth - 1)})",
            f"CAST({a} AS DATETIME)", f"COALESCE({a}, {self.moment(depth - 1)})",
        )  # fmt: skip

    def truth(self, depth: int) -> str:
        if depth == 0:
            return self._pick("n > 0", "d < 1", "s IS NULL", "dt > da", "u = 1", "f <> 0", "TRUE")
        a, b = self.truth(depth - 1), self.truth(depth - 1)
        x, y = self.number(depth - 1), self.number(depth - 1)
        compared = self._pick("=", "<", "<=", "<>", "<=>")
        return self._pick(
            f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})", f"({a} XOR {b})",
            f"({x} {compared} {y})", f"({x} BETWEEN {y} AND 50)", f"({x} IN (1, {y}, NULL))",
            f"({x} IS NOT NULL)", f"({self.moment(depth - 1)} {compared} {self.moment(depth - 1)})",
            f"({self.text(depth - 1)} = 'abc')",
        )  # fmt: skip
