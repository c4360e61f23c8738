"""Literals as defaults and as generated columns: for each type those that a server may take, in
other forms than it stores them."""

from __future__ import annotations

from dataclasses import dataclass

_WHOLE = ["7", "+7", "-7", "007", "'7'", "'3.7'", "'-3.2'", "' 7'", "'7 '", "'+7'", "3.7", "-2.5"]
_WHOLE += ["2.5e1", "'2e1'", "1e2", "TRUE", "FALSE", "x'41'", "0x41", "b'101'", "0b11", "N'7'"]
_WHOLE += ["'5' '6'", "_latin1'12'", "NULL", "'1e'", "'.5'", "'5.'", "127", "300", "-0.4", "''"]
_WHOLE += [
    "18446744073709551615",
    "9223372036854775807",
    "'18446744073709551615'",
    "1.5e0",
    "'abc'",
]
_WHOLE += ["DATE '2020-01-02'", "TIME '10:11:12'", "2020", "70", "'70'", "'0'", "0", "'00'", "1"]
_WHOLE += ["'000'", "'0000'", "69", "'1'", "'99'", "1901", "2155", "2156", "'b'", "x'0041'"]
_EXACT = ["1.239", "'1.239'", "1.235", "-1.235", "'1.235'", "1.2e0", "1.239e0", "123456789.125"]
_EXACT += ["'1e-3'", "1e-3", "0.005", "-0.001", "99.995", "'  1.5'", "1.005", "2.675", "0.1e1"]
_LETTERS = ["'a '", "'a'", "'  a'", "'abcdef'", "'abcde   '", "1e3", "1.50", "007", "1e20", "1e-7"]
_LETTERS += ["-5", "+5", "TRUE", "x'4142'", "x'E9'", "x'C3A9'", "b'1000001'", "0x41", "N'ä'", "''"]
_LETTERS += ["_latin1'é'", "_utf8mb4'é'", "'é€'", "'a' 'b'", "'it''s'", "'back\\\\slash'", "NULL"]
_LETTERS += ["DATE '2020-1-2'", "TIME '10:11'", "TIMESTAMP '2020-01-02 3:4:5.6'", "1.5e300", "0x"]
_LETTERS += [
    "_binary'ab'",
    "_binary'é'",
    '"dq"',
    "123456",
    "-1.5e0",
    "0e0",
    "0.10",
    ".5",
    "5.",
    "x''",
    "'ab\\0'",
    "1e15",
    "123456789012345678901234567890",
    "b'100000001'",
    "x'410041'",
]
_DAYS = ["'2020-01-02'", "'20200102'", "'20-1-2'", "20200102", "200102", "'200102'", "'2020-1-2'"]
_DAYS += [
    "'2020/01/02'",
    "'2020.01.02'",
    "'2020:01:02'",
    "'70-01-02'",
    "'69-12-31'",
    "'2020-01-02 '",
]
_DAYS += [
    "DATE '2020-1-2'",
    "TIMESTAMP '2020-01-02 03:04:05'",
    "'2020-01-02 00:00:00'",
    "' 2020-01-02'",
]
_DAYS += ["20200102030405", "'20200102030405'", "200102030405", "'0000-00-00'", "0", "'0'", "NULL"]
_DAYS += [
    "'2020-00-00'",
    "'2020-02-31'",
    "{d '2020-01-02'}",
    "20200102.0",
    "x'323032302D30312D3032'",
]
_DAYS += [
    "'2020-01-02 10:00:00.6'",
    "'2020-01-02T10:00:00'",
    "'2020-01-02 10:00:00+02:00'",
    "'0000-00-00 00:00:00'",
]
_DAYS += [
    "'2020-01-02 10:00'",
    "'2020-01-02 1:2:3'",
    "'2020-01-02 10'",
    "'2020-01-02 10:00:00.123456789'",
]
_DAYS += [
    "'2020-12-31 23:59:59.9'",
    "20200102030405.6",
    "'20200102030405.6'",
    "'2020-01-02 00:30:00-05:30'",
]
_DAYS += [
    "TIMESTAMP '2020-01-02 03:04:05.678'",
    "TIMESTAMP '2020-01-02 03:04:05+01:00'",
    "''",
    "'1999-12-31 23:59:59.4999996'",
]
_DAYS += [
    "'10:11:12'",
    "TIME '10:11:12'",
    "'2020-01-02 24:00:00'",
    "101",
    "'1-1-1'",
    "'2020-01-02x'",
    "N'2020-01-02'",
]
_DAYS += [
    "20200102e0",
    "'99991231'",
    "991231",
    "691231",
    "700101",
    "'2020-01-02 10:00:00.'",
    "TRUE",
    "'2020-01-02 10:00:00 +02:00'",
]
_TIMES = [
    "'10:11:12'",
    "'10:11'",
    "'101112'",
    "101112",
    "'1 10:11:12'",
    "-101112",
    "'-10:11:12'",
    "10",
]
_TIMES += [
    "'10'",
    "'10:11:12.6'",
    "10.6",
    "'838:59:59'",
    "TIME '10:11:12'",
    "TIME '-10:11:12.5'",
    "0",
    "'0'",
]
_TIMES += [
    "TIMESTAMP '2020-01-02 03:04:05'",
    "'2020-01-02 03:04:05'",
    "NULL",
    "'1:2:3'",
    "'100:00:00'",
]
_TIMES += [
    "'10:11:12 '",
    "' 10:11:12'",
    "''",
    "101112.5",
    "x'31303A3131'",
    "'10:61:00'",
    "1e3",
    "'10.5'",
    "'0 1'",
    "'2 1:2'",
    "'00:00:00.0000005'",
    "20200102030405",
    "TRUE",
    "'23:59:59.9999996'",
]
_MEMBERS = [
    "'b,a'",
    "'SMALL'",
    "'small'",
    "'small '",
    "1",
    "2",
    "'2'",
    "'1'",
    "3",
    "'a,B'",
    "''",
    "0",
]
_MEMBERS += [
    "NULL",
    "'A'",
    "'b'",
    "x'61'",
    "N'a'",
    "'a,a'",
    "'a,b,'",
    "'ä'",
    "'Ä'",
    "TRUE",
    "1.0",
    "1e0",
    "'a '",
    "b'1'",
    "'large'",
    "x'01'",
]
_DOCUMENTS = [
    '\'{"b":1,"a":[1,2]}\'',
    "'[]'",
    "'\"x\"'",
    "'1'",
    "'1.50'",
    "'1e3'",
    "1",
    "1.50",
    "1e3",
    "-5",
]
_DOCUMENTS += [
    "TRUE",
    "FALSE",
    "NULL",
    "'null'",
    "'true'",
    "'{}'",
    "JSON_ARRAY()",
    "JSON_OBJECT()",
    "' [1,  2] '",
]
_DOCUMENTS += [
    '\'{"a":1,"a":2}\'',
    "'\"ä\\\\u00e4\"'",
    "x'5B5D'",
    "DATE '2020-01-02'",
    "18446744073709551615",
    "007",
    "TIME '10:11:12'",
    "TIMESTAMP '2020-01-02 03:04:05'",
    "_latin1'[1]'",
    "'[1.0, 1e2, 100000000000000000000]'",
    "2.5",
    "b'1'",
    "N'[1]'",
    "'[1' ',2]'",
    "'18446744073709551616'",
]
_BITS = [
    *_WHOLE,
    "b'11110000'",
    "'a'",
    "255",
    "'255'",
    "65",
    "-1",
    "x'FF'",
    "b''",
    "'\\0'",
    "1.5",
    "N'1'",
]
_OTHERS = ["NULL", "x'000000000101000000000000000000F03F0000000000000040'", "POINT(1,2)"]

LITERALS = {
    **dict.fromkeys(("TINYINT", "INT", "BIGINT UNSIGNED", "YEAR", "BOOLEAN"), _WHOLE),
    "INT(5) ZEROFILL": _WHOLE,
    **dict.fromkeys(("DECIMAL(5,2)", "DECIMAL(40,10)", "FLOAT", "DOUBLE", "FLOAT(5,2)",
                     "DOUBLE(7,3)", "DECIMAL(10) UNSIGNED"), _WHOLE + _EXACT),
    **dict.fromkeys(("BIT(1)", "BIT(8)", "BIT(20)"), _BITS),
    **dict.fromkeys(("CHAR(5)", "VARCHAR(9)", "VARCHAR(40)", "VARCHAR(40) CHARACTER SET latin1",
                     "BINARY(5)", "VARBINARY(40)", "TEXT", "BLOB", "CHAR(5) CHARACTER SET utf16"),
                    _LETTERS),
    **dict.fromkeys(("DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL"),
                    _DAYS),
    **dict.fromkeys(("TIME", "TIME(3)"), _TIMES),
    **dict.fromkeys(("ENUM('small','large')", "ENUM('b','a','2')", "SET('a','b')",
                     "SET('b','a','ä')", "ENUM('a','b') CHARACTER SET latin1"), _MEMBERS),
    "JSON": _DOCUMENTS,
    "POINT": _OTHERS,
    "VECTOR(2)": ["NULL", "x'0000803F00000040'", "'ab'"],
}  # fmt: skip
WAYS = {
    "literal": "{} DEFAULT {}", "expression": "{} DEFAULT ({})", "generated": "{} AS ({}) STORED",
    "virtual": "{} AS ({}) VIRTUAL",
}  # fmt: skip
"""how a literal gets into rows that are there"""
SESSIONS = {
    "usual": ("NO_ENGINE_SUBSTITUTION", "+05:45"),
    "strict": (
        "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,TIME_TRUNCATE_FRACTIONAL",
        "-03:30",
    ),
}
"""sql_mode and time_zone"""


@dataclass(frozen=True)
class Case:
    sql_type: str
    literal: str
    way: str
    session: str

    @property
    def clause(self) -> str:
        return WAYS[self.way].format(self.sql_type, self.literal)
