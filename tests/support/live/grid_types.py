"""Types of columns with the values, as SQL, that are at the edges of conversions from them."""

from __future__ import annotations

_INTS = ["NULL", "0", "1", "-1", "5", "12", "69", "70", "99", "127", "128", "255", "256", "-128"]
_INTS += ["-129", "2024", "32767", "32768", "65535", "8388607", "8388608", "16777217"]
_LONGS = ["2147483647", "2147483648", "4294967295", "9223372036854775807", "-9223372036854775808"]
_REALS = [
    "NULL",
    "0",
    "-0e0",
    "0.5",
    "1.5",
    "2.5",
    "-0.5",
    "-2.5",
    "1.005",
    "2.675",
    "127.5",
    "1e5",
]
_REALS += ["123.456", "1e-5", "1e14", "1e15", "1e16", "123456789", "1234567.5", "0.1", "1e20"]
_DECIMALS = [
    "NULL",
    "0",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-2.5",
    "1.005",
    "127.5",
    "-0.001",
    "999.995",
]
_DECIMALS += ["99.99", "2024", "12", "-0.004", "65535.5", "4294967295.4"]
_TEXTS = ["NULL", "''", "' '", "'a'", "'A'", "'abc'", "'abcdef'", "'abc   '", "'a  '", "'äöü'"]
_TEXTS += ["'€uro'", "'😀x'", "'1'", "'2'", "'12'", "' 12'", "'12 '", "'12abc'", "'12.5'", "'-0.5'"]
_TEXTS += ["'1e2'", "'b,a'", "'a,x'", "'2024-02-29'", "'0'", "'128'", "'99999999999999999999'"]
_TEXTS += ["'2024-02-29 12:34:56.5'", "'12:34:56'", "'.5'", "'5.'", "'-'", "'+7'", "'000003'"]
_BYTES = [
    "NULL",
    "''",
    "'a'",
    "'abc'",
    "'abc   '",
    "X'FF'",
    "X'61FF'",
    "X'C3A4'",
    "'12'",
    "X'6100'",
]
_BYTES += ["X'C3A4C3A4C3A4'", "X'F09F988078'"]
_MOMENTS = ["NULL", "'2024-02-29 12:34:56.789500'", "'2024-12-31 23:59:59.999999'"]
_MOMENTS += ["'1999-12-31 23:59:59.500000'", "'2038-01-19 03:14:07'", "'2000-01-01'"]
_DATES = ["'1969-12-31 23:59:59.5'", "'2038-01-19 03:14:07.9'", "'1000-01-01'", "'1970-01-01'"]
_DATES += ["'9999-12-31 23:59:59'"]
_TIMES = ["NULL", "'12:34:56.789500'", "'-12:34:56.5'", "'838:59:59'", "'-838:59:59'", "'0:0:0.4'"]
_TIMES += ["'00:00:59.999999'", "'100:00:00.999999'", "'-00:00:00.5'"]
_MEMBERS = ["NULL", "'a'", "'b'", "'1'", "''"]

TYPES = {
    "TINYINT": _INTS,
    "INT": _INTS + _LONGS,
    "BIGINT": _INTS + _LONGS,
    "BIGINT UNSIGNED": [*_INTS, *_LONGS, "18446744073709551615"],
    "DECIMAL(5,2)": _DECIMALS,
    "DECIMAL(10,0) UNSIGNED": _DECIMALS,
    "DECIMAL(65,30)": [*_DECIMALS, "99999999999999999999999999999999999.5"],
    "FLOAT": _REALS,
    "DOUBLE": [*_REALS, "1e300", "-1e300", "1.7976931348623157e308", "1e-300", "9007199254740993"],
    "YEAR": ["NULL", "0", "1901", "1970", "2024", "2155"],
    "BIT(1)": ["NULL", "0", "1"],
    "BIT(64)": ["NULL", "0", "1", "97", "2024", "9223372036854775808", "18446744073709551615"],
    "CHAR(5)": _TEXTS,
    "VARCHAR(3)": _TEXTS,
    "VARCHAR(40)": _TEXTS,
    "VARCHAR(10) CHARACTER SET latin1": _TEXTS,
    "VARCHAR(10) CHARACTER SET utf16": _TEXTS,
    "TINYTEXT": [*_TEXTS, "REPEAT('x', 255)", "CONCAT('x', REPEAT('ä', 127))"],
    "TEXT": [*_TEXTS, "REPEAT('x', 300)", "REPEAT('ä', 200)", "CONCAT('x', REPEAT(' ', 300))"],
    "TEXT CHARACTER SET latin1": [*_TEXTS, "REPEAT('x', 300)", "REPEAT('ä', 200)"],
    "BINARY(3)": _BYTES,
    "VARBINARY(20)": _BYTES,
    "BLOB": [*_BYTES, "REPEAT('x', 300)"],
    "ENUM('a','b','1')": _MEMBERS,
    "ENUM('b','a','c','d')": _MEMBERS,
    "SET('a','b','1')": [*_MEMBERS, "'a,b'", "'b,1'"],
    "DATE": [*_MOMENTS, *_DATES],
    "DATETIME": [*_MOMENTS, *_DATES],
    "DATETIME(6)": [*_MOMENTS, *_DATES, "'9999-12-31 23:59:59.999999'"],
    "TIMESTAMP(3) NULL": _MOMENTS,
    "TIME(6)": _TIMES,
    "VARCHAR(9) CHARACTER SET utf8mb3": _TEXTS,
    "DECIMAL(12,3)": _DECIMALS,
    "JSON": ["NULL", "'1'", "'\"a\"'", '\'{"b": 1.5, "a": [true, null]}\'', "'1e20'", "'12.0'"],
}

MOMENTS = {
    **{one: TYPES[one] for one in ("DATE", "DATETIME", "DATETIME(6)", "TIME(6)", "VARCHAR(40)")},
    **dict.fromkeys(("TIMESTAMP(6) NULL", "TIMESTAMP NULL"), TYPES["TIMESTAMP(3) NULL"]),
    **{one: TYPES[one] for one in ("BIGINT", "DECIMAL(12,3)", "DOUBLE", "TIMESTAMP(3) NULL")},
    "TIME": _TIMES,
    "TEXT": ["NULL", "'12:34:56.789'", "'2024-02-29 00:00:00.123456'"],
}
ZERO_DATES = ["'0000-00-00'", "'2024-00-10'"]
