"""Values whose bytes differ in the log and that are one in the target, and zeros with a sign."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import DecodeError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import run, stopped

DOCUMENTS = Table("documents", (("id", "int"), ("j", "json")), ())
ZEROS = Table("zeros", (("id", "int"), ("d", "double")), ())
JAPANESE = Table("japanese", (("id", "int"), ("v", "varchar(20) CHARACTER SET cp932")), ())
FLOAT_KEY = Table("float_key", (("d", "double"), ("v", "varchar(9)")))
FLOAT_KEYS = Table(
    "float_keys", (("a", "varchar(9)"), ("d", "double"), ("e", "double"), ("n", "int")), (0, 1, 2)
)
JAPANESE_KEY = Table("japanese_key", (("v", "varchar(20) CHARACTER SET cp932"), ("n", "int")))
NEC, JIS = b"\x87\x90", b"\x81\xe0"
"""Both are the character U+2252."""

bounds = pytest.mark.parametrize("bound", [1, 2, 100])


def document(hole: int) -> bytes:
    """{"a": "y"}, with room behind it, as JSON_SET leaves it when it makes a value shorter."""
    head = struct.pack("<HHHH", 1, 14 + hole, 11, 1) + b"\x0c" + struct.pack("<H", 12)
    return b"\x00" + head + b"a" + b"\x01y" + bytes(hole)


WIDE, TIGHT = document(4), document(0)


def values(target: Path, table: Table) -> list[Any]:
    """Sorted; -0.0 is told from 0.0."""
    found = read(f"{target}/{table.database}/{table.name}", None).to_pylist()
    return sorted(repr(tuple(row.values())) for row in found)


def printed(*rows: Any) -> list[str]:
    return sorted(map(repr, rows))


@bounds
def test_documents_of_one_text_go_together(log, target, bound):
    log.ddl(DOCUMENTS.create)
    log.transaction(insert(DOCUMENTS, (1, TIGHT), (1, WIDE), (1, TIGHT), (2, WIDE)))
    run(log.folder, target)
    log.transaction(delete(DOCUMENTS, (1, TIGHT), (2, WIDE)))
    log.transaction(delete(DOCUMENTS, (1, WIDE)))
    run(log.folder, target, group_max_transactions=bound, workers=3)
    assert values(target, DOCUMENTS) == printed((1, '{"a": "y"}'))


@bounds
def test_a_document_goes_in_another_form_than_it_came(log, target, bound):
    """A new group's rows come and go, without being looked for in the table."""
    log.ddl(DOCUMENTS.create)
    log.transaction(insert(DOCUMENTS, (1, TIGHT), (2, TIGHT)))
    log.transaction(update(DOCUMENTS, ((1, WIDE), (3, WIDE))))
    log.transaction(delete(DOCUMENTS, {0: 2, 1: WIDE}))
    log.transaction(insert(DOCUMENTS, {0: 4}))
    run(log.folder, target, group_max_transactions=bound, workers=3)
    assert values(target, DOCUMENTS) == printed((3, '{"a": "y"}'), (4, None))


def test_a_document_that_is_not_there_is_missed(log, target):
    log.ddl(DOCUMENTS.create)
    log.transaction(insert(DOCUMENTS, (1, TIGHT)))
    run(log.folder, target)
    log.transaction(delete(DOCUMENTS, (1, TIGHT), (1, WIDE)))
    error = stopped(log.folder, target)
    assert (error.number, error.gtid) == (1032, log.gtid(5))


@bounds
def test_characters_with_two_forms_are_one_value(log, target, bound):
    log.ddl(JAPANESE.create)
    log.transaction(insert(JAPANESE, (1, NEC), (1, JIS), (2, JIS)))
    run(log.folder, target)
    log.transaction(delete(JAPANESE, (1, NEC)), delete(JAPANESE, (1, JIS)))
    run(log.folder, target, group_max_transactions=bound, workers=3)
    assert values(target, JAPANESE) == printed((2, "≒"))


@bounds
@pytest.mark.parametrize("partial", [False, True])
def test_zeros_keep_their_sign(log, target, bound, partial):
    """As the server keeps them; it is the row with that very zero that goes."""
    log.ddl(ZEROS.create)
    both = [(i, zero) for i in range(20) for zero in (0.0, -0.0)]
    log.transaction(insert(ZEROS, *both, (20, -0.0)))
    run(log.folder, target)
    log.transaction(delete(ZEROS, *both[::4]), delete(ZEROS, *both[1::4]))
    log.transaction(delete(ZEROS, *both[3::4]))
    log.transaction(update(ZEROS, ((20, -0.0), {1: 0.0} if partial else (20, 0.0))))
    run(log.folder, target, group_max_transactions=bound, workers=3)
    assert values(target, ZEROS) == printed(*both[2::4], (20, 0.0))


@bounds
@pytest.mark.parametrize("partial", [False, True])
def test_zero_is_one_key(log, target, bound, partial):
    log.ddl(FLOAT_KEY.create)
    log.transaction(insert(FLOAT_KEY, (-0.0, "a"), (1.0, "b"), (-5e-324, "c")))
    run(log.folder, target)
    log.transaction(delete(FLOAT_KEY, (-0.0, "a")))
    log.transaction(insert(FLOAT_KEY, (0.0, "again")))
    log.transaction(update(FLOAT_KEY, ({0: 0.0}, {1: "x"}) if partial else ((0.0, ""), (0.0, "x"))))
    run(log.folder, target, group_max_transactions=bound, workers=3)
    assert values(target, FLOAT_KEY) == printed((0.0, "x"), (1.0, "b"), (-5e-324, "c"))
    log.transaction(
        update(FLOAT_KEY, ({0: 0.0}, {0: -0.0}) if partial else ((0.0, "x"), (-0.0, "x")))
    )
    run(log.folder, target)
    assert values(target, FLOAT_KEY) == printed((-0.0, "x"), (1.0, "b"), (-5e-324, "c"))


@bounds
def test_zero_among_other_columns_of_a_key(log, target, bound):
    log.ddl(FLOAT_KEYS.create)
    log.transaction(
        insert(FLOAT_KEYS, ("x", -0.0, 0.0, 1), ("xx", 0.0, -0.0, 2), ("", 1.0, -0.0, 3))
    )
    run(log.folder, target)
    log.transaction(update(FLOAT_KEYS, (("x", -0.0, 0.0, 1), ("x", 0.0, -0.0, 1))))
    log.transaction(delete(FLOAT_KEYS, ("xx", 0.0, -0.0, 2)))
    log.transaction(insert(FLOAT_KEYS, ("xx", -0.0, -0.0, 4)))
    log.transaction(update(FLOAT_KEYS, (("", 1.0, 0.0, 3), ("", -0.0, 1.0, 3))))
    run(log.folder, target, group_max_transactions=bound, workers=3)
    want = printed(("x", 0.0, -0.0, 1), ("xx", -0.0, -0.0, 4), ("", -0.0, 1.0, 3))
    assert values(target, FLOAT_KEYS) == want


@pytest.mark.parametrize("partial", [False, True])
def test_a_key_in_a_second_form_is_refused(tmp_path, target, partial):
    """The server has a row for each form, the target could have but one."""
    log = LogWriter(tmp_path / "log")
    log.ddl(JAPANESE_KEY.create)
    log.transaction(insert(JAPANESE_KEY, (b"a" + JIS, 1)))
    log.transaction(insert(JAPANESE_KEY, {0: b"a" + NEC} if partial else (b"a" + NEC, 2)))
    error = stopped(log.folder, target)
    assert isinstance(error, DecodeError)
    assert error.gtid == log.gtid(2)
    assert "t.japanese_key" in str(error) and "column v" in str(error) and "8790" in str(error)
    assert values(target, JAPANESE_KEY) == printed(("a≒", 1))
