"""Values of every type, and expressions of every result, into columns of every type."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from .expression_cases import COLUMNS, GRID, Case, Composer

_WHOLE = ["NULL", "0", "1", "2", "5", "-1", "-128", "127", "69", "70", "99", "255", "2020"]
_WORDS = ["NULL", "''", "'0'", "'1'", "'2'", "'a'", "'x'", "'a,x'", "'2020'", "'12.50'", "'-1'"]
_WORDS += [
    "'2024-02-29'",
    "'2024-02-29 12:34:56'",
    "'12:34:56'",
    "'abcdefgh'",
    "' 1'",
    "'a '",
    "'abc de'",
]
_WIDE = [*_WORDS, "'é'", "'äbc'"]
_DAYS = ["NULL", "'2024-02-29'", "'1999-12-31'", "'1970-01-01'", "'2001-01-01'", "'9999-12-31'"]
_MOMENTS = ["NULL", "'2024-02-29 12:34:56'", "'1999-12-31 23:59:59'", "'2001-01-01 00:00:00'"]
_FINE = [*_MOMENTS, "'2024-02-29 12:34:56.789012'", "'1999-12-31 23:59:59.999999'",
         "'2001-01-01 00:00:00.5'"]  # fmt: skip
_DOCUMENTS = ["NULL", "'0'", "'1'", "'2.5'", "'-0.0'", "'1.0'", "'\"a\"'", "'\"1\"'", "'[]'",
              "'true'", "'null'", "'{\"a\": 1}'", "'\"2024-02-29\"'", "'1e20'"]  # fmt: skip
SOURCES = {
    "ti": ("TINYINT", _WHOLE),
    "tu": ("TINYINT UNSIGNED", _WHOLE),
    "si": ("SMALLINT", [*_WHOLE, "-32768", "32767"]),
    "mi": ("MEDIUMINT UNSIGNED", [*_WHOLE, "16777215"]),
    "n": ("INT", [*_WHOLE, "-2147483648", "20240229", "123456", "2155", "2156"]),
    "b": ("BIGINT", [*_WHOLE, "9223372036854775807", "-9223372036854775808", "20240229123456"]),
    "bu": ("BIGINT UNSIGNED", [*_WHOLE, "18446744073709551615", "9223372036854775808"]),
    "iz": ("INT(6) ZEROFILL", _WHOLE),
    "d": ("DECIMAL(10,2)", [*_WHOLE, "0.01", "1.50", "2.49", "-0.50", "99999999.99"]),
    "di": ("DECIMAL(12,0)", [*_WHOLE, "123456789012"]),
    "dl": ("DECIMAL(30,10)", [*_WHOLE, "0.0000000001", "1234567890.123456789"]),
    "du": ("DECIMAL(6,3) UNSIGNED", [*_WHOLE, "0.001", "1.5"]),
    "dw": ("DECIMAL(50,20)", [*_WHOLE, "0.5", "99999999999999999999.5"]),
    "f": ("FLOAT", [*_WHOLE, "0.5", "1.5", "2.5", "0.1", "-0e0", "1e20", "16777217"]),
    "fm": ("FLOAT(7,2)", [*_WHOLE, "0.5", "1.005"]),
    "g": ("DOUBLE", [*_WHOLE, "0.5", "1.5", "2.5", "0.1", "-0e0", "1e20", "1e-7", "123.456"]),
    "gm": ("DOUBLE(9,3)", [*_WHOLE, "0.5", "1.0005"]),
    "y": ("YEAR", ["NULL", "0", "1901", "1970", "2001", "2020", "2155"]),
    "bo": ("BIT(1)", ["NULL", "0", "1"]),
    "p": ("BIT(8)", ["NULL", "0", "1", "2", "3", "49", "97", "255"]),
    "pw": ("BIT(64)", ["NULL", "0", "1", "49", "18446744073709551615"]),
    "s": ("VARCHAR(20)", _WIDE),
    "l": ("VARCHAR(20) CHARACTER SET latin1", _WIDE),
    "ga": ("VARCHAR(20) CHARACTER SET gbk", _WORDS),
    "us": ("VARCHAR(20) CHARACTER SET utf16", _WIDE),
    "ac": ("VARCHAR(20) CHARACTER SET ascii", _WORDS),
    "c": ("CHAR(20)", _WIDE),
    "o": ("TEXT", _WIDE),
    "x": ("VARBINARY(20)", [*_WORDS, "X'00FF'", "'a\\0'"]),
    "xb": ("BINARY(3)", _WORDS),
    "xl": ("BLOB", [*_WORDS, "X'00FF'"]),
    "m": ("ENUM('0','2','1','a','x')", ["NULL", "'0'", "'2'", "'1'", "'a'", "'x'", "''"]),
    "ml": ("ENUM('x','a') CHARACTER SET latin1", ["NULL", "'x'", "'a'"]),
    "mu": ("ENUM('x','a') CHARACTER SET utf16", ["NULL", "'x'", "'a'"]),
    "mx": ("ENUM('x','1 ') CHARACTER SET binary", ["NULL", "'x'", "'1 '"]),
    "st": ("SET('0','2','1','a','x')", ["NULL", "''", "'0'", "'2'", "'1'", "'a,x'", "'0,x'"]),
    "sx": ("SET('x','1 ') CHARACTER SET binary", ["NULL", "'x'", "'1 '", "'x,1 '"]),
    "da": ("DATE", _DAYS),
    "dt": ("DATETIME", _MOMENTS),
    "dm": ("DATETIME(6)", _FINE),
    "dc": ("DATETIME(2)", _FINE),
    "ts": ("TIMESTAMP NULL", _MOMENTS),
    "tc": ("TIMESTAMP(3) NULL", _FINE),
    "tm": ("TIME", ["NULL", "'12:34:56'", "'-01:02:03'", "'838:59:59'", "'00:00:00'"]),
    "tf": ("TIME(3)", ["NULL", "'12:34:56.789'", "'-01:02:03.5'", "'00:00:00'"]),
    "j": ("JSON", _DOCUMENTS),
    "pt": ("POINT", ["NULL", "ST_GeomFromText('POINT(1 2)')"]),
    "v": ("VECTOR(2)", ["NULL", "TO_VECTOR('[1,2]')"]),
}  # fmt: skip
TARGETS = (
    "TINYINT", "TINYINT UNSIGNED", "SMALLINT", "MEDIUMINT", "INT", "INT UNSIGNED", "BIGINT",
    "BIGINT UNSIGNED", "DECIMAL(4,1)", "DECIMAL(10,0)", "DECIMAL(30,6)", "DECIMAL(6,3) UNSIGNED",
    "DECIMAL(60,20)", "FLOAT", "DOUBLE", "DOUBLE UNSIGNED", "FLOAT(7,2)", "DOUBLE(9,3)", "YEAR",
    "BIT(1)", "BIT(8)", "BIT(64)", "CHAR(4)", "CHAR(60)", "VARCHAR(3)", "VARCHAR(60)",
    "VARCHAR(60) CHARACTER SET latin1", "VARCHAR(60) CHARACTER SET utf16",
    "VARCHAR(60) CHARACTER SET ascii", "VARCHAR(60) CHARACTER SET gbk", "TINYTEXT", "TEXT",
    "TEXT CHARACTER SET latin1", "BINARY(5)", "BINARY(60)", "VARBINARY(3)", "VARBINARY(60)", "BLOB",
    "ENUM('0','1','2','a','x')", "ENUM('x','1','2020')", "SET('0','1','2','a','x')", "SET('x','1')",
    "ENUM('x','1 ') CHARACTER SET binary", "SET('x','1 ') CHARACTER SET binary", "DATE", "DATETIME",
    "DATETIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(2) NULL", "TIME", "TIME(2)", "JSON",
    "GEOMETRY", "VECTOR(2)",
)  # fmt: skip
KINDS = ("STORED", "VIRTUAL", "DEFAULT")
_CONSTANTS = (
    "0", "1", "2", "-1", "2020", "1.50", "0.00", "-0.5", "1e0", "2.5e0", "0e0", "'a'", "'1'", "''",
    "'x '", "'2020'", "'2024-02-29'", "'12:34:56'", "X'31'", "X'61'", "B'1'", "NULL", "TRUE",
    "DATE'2024-02-29'", "TIMESTAMP'2024-02-29 12:34:56.5'", "TIME'12:34:56'", "_latin1'a'",
    "20240229", "123456", "'20240229123456'", "20240229123456", "'2024-02-29 12:34:56'",
    "'24-02-29 12:34:56'", "'2024-02-29T12:34:56.25'", "'240229123456'", "240229123456",
    "'20240229'", "'12:34'", "'1 12:34'", "'-1'", "'1.5'", "'1e1'", "' 1'", "'abc'", "-0.0",
    "'12abc'", "255", "256", "18446744073709551615", "9223372036854775808", "-128", "1e20",
    "0.1e0", "'é'", "'a,x'", "3", "N'a'", "_binary'a'", "(1)", "-(1)", "+1", "1 + 1",
    "CONCAT('a', 'x')",
)  # fmt: skip
# Exact numbers, and moments as numbers, as text within a function: zeros among them.
_PRINTED = (
    "d * 0", "d - d", "d * n", "e * d", "n / 3", "d / 3", "-(d * 0)", "ABS(d - d)", "d % 1",
    "ROUND(d * n, 1)", "TRUNCATE(d * 0, 1)", "FLOOR(d / 100)", "CAST(d * 0 AS DECIMAL(12,3))",
    "IF(n > 0, d * 0, d)", "IFNULL(d * 0, 5)", "COALESCE(d - d, d)", "NULLIF(d * 0, 1)",
    "CASE WHEN n > 0 THEN d * 0 ELSE d - d END", "GREATEST(d * 0, -d)", "LEAST(e, d * 0)", "d",
    "e", "dt + 0", "dm + 0", "da + 0", "dt * 1.5", "dm - 0", "tm + 0", "ts + 0", "n * 1.0",
    "0.00 * n", "n DIV 2", "u * 0.0", "d * 1.10", "d + e", "IF(n > 0, dt + 0, 1)", "y * 1.0",
    "p + 0.0", "t + 0", "n * 0", "w - w", "-n",
)  # fmt: skip
_PRINTS = (
    "{}", "CONCAT({})", "CONCAT({}, ' EUR')", "CONCAT_WS('/', {}, {})", "LEFT({}, 3)",
    "RIGHT({}, 2)", "SUBSTR({}, 2)", "REPLACE({}, '.', ',')", "SUBSTRING_INDEX({}, '.', -1)",
    "TRIM({})", "LPAD({}, 9, '*')", "REVERSE({})", "UPPER({})", "REPEAT({}, 2)", "LENGTH({})",
    "CRC32({})", "CHAR_LENGTH({})", "CAST({} AS CHAR)", "CAST({} AS CHAR(3))",
    "CAST({} AS BINARY)", "{} = '0.00'", "{} = '0'", "{} LIKE '0.0%'", "{} IN ('0', '0.00')",
    "IF(n > 0, {}, 'x')", "IFNULL({}, 'x')", "COALESCE(NULL, {}, 'x')",
    "CASE WHEN n > 0 THEN 'x' ELSE {} END", "CONCAT(IF(n > 0, {}, 1))", "CONCAT(IFNULL({}, 2.5))",
    "SHA2({}, 256)", "HEX(CONCAT({}))", "{} AND 1", "NOT {}", "CONCAT(ROUND({}, 3))",
    "CONCAT(-({}))", "CONCAT(GREATEST({}, 0))", "NULLIF({}, 0)",
)  # fmt: skip
_PIECES = (
    "SUBSTRING_INDEX({}, '--', {})", "SUBSTRING_INDEX({}, '-', {})",
    "SUBSTRING_INDEX({}, 'aba', {})", "SUBSTRING_INDEX({}, 'ää', {})",
    "SUBSTRING_INDEX({}, 'X', {})", "SUBSTRING_INDEX({}, 'ab', {})", "SUBSTRING_INDEX({}, '', {})",
)  # fmt: skip
_PARTS = (
    "REPLACE({}, '--', '-')", "REPLACE({}, 'aba', 'x')", "TRIM(BOTH '--' FROM {})",
    "TRIM(LEADING 'aba' FROM {})", "TRIM(TRAILING 'aba' FROM {})", "TRIM(TRAILING 'ää' FROM {})",
    "LPAD({}, 7, 'äb')", "RPAD({}, 7, 'äb')", "REVERSE({})", "LEFT({}, 2)", "RIGHT({}, 2)",
    "SUBSTR({}, -2, 1)", "CHAR_LENGTH({})", "LENGTH({})", "HEX({})", "CAST({} AS CHAR(2))",
    "CONCAT({}, 'ä')", "UPPER({})", "LOWER({})",
)  # fmt: skip
_MARKED = ["NULL", "''", "'-'", "'--'", "'---'", "'-----x----'", "'a---b'", "'ababa'", "'xababay'",
           "'aXbXc'", "'ab'", "'abcab'"]  # fmt: skip
MARKED = {
    "s": ("VARCHAR(20)", [*_MARKED, "'äää'", "'aäääb'"]),
    "l": ("VARCHAR(20) CHARACTER SET latin1", [*_MARKED, "'äää'", "'aäääb'"]),
    "us": ("VARCHAR(20) CHARACTER SET utf16", [*_MARKED, "'äää'"]),
    "x": ("VARBINARY(20)", _MARKED),
    "ga": ("VARCHAR(20) CHARACTER SET gbk", _MARKED),
    "n": ("INT", ["NULL", "0", "1", "-1", "2", "-2", "5", "-5"]),
}


def pieces() -> list[Case]:
    """Functions that look for a text in another, over the columns of ``MARKED``."""
    texts = [one for one in MARKED if one != "n"]
    counts = ("1", "2", "-1", "-2", "-9", "n")
    forms = [form.format(a, n) for form, a, n in product(_PIECES, texts, counts)]
    forms += [form.format(a) for form, a in product(_PARTS, texts)]
    return [Case(form, target) for form in forms for target in ("VARCHAR(60)", "VARBINARY(120)")]


def printed() -> list[Case]:
    """Numbers as text, by every function that takes text."""
    forms = [form.replace("{}", f"({a})") for form, a in product(_PRINTS, _PRINTED)]
    targets = ("VARCHAR(60)", "VARBINARY(60)", "DECIMAL(30,6)")
    return [Case(form, targets[number % len(targets)]) for number, form in enumerate(forms)]


def columns() -> list[Case]:
    """Each column by itself: whatever its type, into every type."""
    return [Case(a, target, kind) for a, target, kind in product(SOURCES, TARGETS, KINDS)]


def constants() -> list[Case]:
    return [Case(a, target, kind) for a, target, kind in product(_CONSTANTS, TARGETS, KINDS)]


def _expressions() -> Iterator[str]:
    for make in GRID.values():
        yield from (expression for expression, _ in make() if expression not in COLUMNS)


def expressions(seed: int, count: int) -> list[Case]:
    """Each expression of ``expression_cases``, into ``count`` types that ``seed`` draws."""
    draw, cases = random.Random(seed), []
    for expression in dict.fromkeys(_expressions()):
        for target in draw.sample(TARGETS, count):
            cases.append(Case(expression, target, draw.choice(KINDS)))
    return cases


def composed(seed: int, count: int) -> list[Case]:
    """Random expressions, of columns of ``expression_cases``, into types that ``seed`` draws."""
    composer, draw = Composer(seed), random.Random(seed)
    return [
        Case(composer.case().expression, draw.choice(TARGETS), draw.choice(KINDS))
        for _ in range(count)
    ]
