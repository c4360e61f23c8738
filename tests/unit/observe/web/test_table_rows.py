"""Rows for the page: how values are told apart and cut off, and that a reader's end is an error."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from spark_repl.control.cuts.cut_head import cell, value_json
from spark_repl.errors import TargetError
from spark_repl.observe.web import table_rows
from spark_repl.observe.web.table_rows import TableRows


def test_null_text_and_bytes_are_told_apart():
    assert value_json(None) is None
    assert value_json("NULL") == "NULL" and value_json("") == ""
    assert value_json(b"") == {"hex": "", "bytes": 0}
    assert value_json(b"<b>") == {"hex": "3c623e", "bytes": 3}
    assert value_json(b"\xff" * 1000) == {"hex": "ff" * 32, "bytes": 1000}


def test_long_text_is_cut_off_with_its_length():
    assert value_json("x" * 300) == "x" * 300
    assert value_json("ü" * 301) == {"text": "ü" * 300, "length": 301}
    assert value_json({"a": "x" * 400})["length"] == 409


def test_bytes_within_a_struct_are_hexadecimal():
    shown = '{"srid": 4326, "wkb": "0x0101ff", "at": "2026-11-24"}'
    value = {"srid": 4326, "wkb": b"\x01\x01\xff", "at": date(2026, 11, 24)}
    assert value_json(value) == cell(value) == shown


def test_numbers_keep_all_digits():
    assert value_json(2**63 - 1) == "9223372036854775807"
    assert value_json(Decimal("0.10")) == "0.10"
    assert value_json(datetime(2026, 11, 24, tzinfo=UTC)) == "2026-11-24 00:00:00+00:00"


def test_a_table_that_can_not_be_read_is_an_error(tmp_path):
    answer = json.loads(TableRows(str(tmp_path), "", "").read("t.a", "latest"))
    assert "nothing has been applied" in answer["error"] and set(answer) == {"error", "hint"}


def test_a_reader_without_memory_or_time_harms_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(table_rows.sys, "executable", "/bin/false")
    with pytest.raises(TargetError, match="too large") as caught:
        TableRows(str(tmp_path), "", "").read("t.a", "latest")
    assert caught.value.hint == "spark-repl cut head --config F t.a -n 1"
    with pytest.raises(TargetError, match="too long"):
        TableRows(str(tmp_path), "", "").read("t" * 301, "latest")
