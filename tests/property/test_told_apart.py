"""Row filters that are taken to be apart never let one row pass both: random ones, asked of each
row of a small table by what asks rows of the log."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_repl.rules.disjoint_filters import ChannelRows
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.rules.row_filters import row_filter
from spark_repl.sql.classify import classify

_FOUND = classify(
    "CREATE TABLE t.a (id INT, s VARCHAR(9), b VARCHAR(9) COLLATE utf8mb4_bin,"
    " PRIMARY KEY (id, s, b)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci",
    "t",
).definition
assert _FOUND is not None
TABLE = with_extra(_FOUND, ["shard"], shard="_channel")
TEXTS = ["a", "A", "a ", "b", ""]
DOMAIN = [*product(range(-7, 8), TEXTS, ["a", "A", "b "])]
NUMBERS = st.integers(-7, 7)
SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!="])


def _quoted(text: str) -> str:
    return f"'{text}'"


LITERALS = st.one_of(st.sampled_from(TEXTS).map(_quoted), st.just("NULL"))
NAMES = st.sampled_from(["s", "b", "S"])
WHOLE = st.one_of(
    st.just("id"),
    st.integers(-4, 4).map(lambda one: f"id % {one}"),
    st.integers(1, 4).map(lambda one: f"MOD(id, {one})"),
)
ATOMS = st.one_of(
    st.tuples(WHOLE, SIGNS, NUMBERS).map(lambda one: f"{one[0]} {one[1]} {one[2]}"),
    st.tuples(NUMBERS, SIGNS, WHOLE).map(lambda one: f"{one[0]} {one[1]} {one[2]}"),
    st.tuples(
        WHOLE, st.sampled_from(["IN", "NOT IN"]), st.lists(NUMBERS, min_size=1, max_size=4)
    ).map(
        lambda one: f"{one[0]} {one[1]} ({', '.join(map(str, one[2]))})"
    ),
    st.tuples(st.just("id"), st.sampled_from(["", "NOT "]), NUMBERS, NUMBERS).map(
        lambda one: f"{one[0]} {one[1]}BETWEEN {one[2]} AND {one[3]}"
    ),
    st.tuples(NAMES, st.sampled_from(["=", "<>"]), LITERALS).map(" ".join),
    st.tuples(
        NAMES, st.sampled_from(["IN", "NOT IN"]), st.lists(LITERALS, min_size=1, max_size=3)
    ).map(lambda one: f"{one[0]} {one[1]} ({', '.join(one[2])})"),
    st.sampled_from(["id", "s LIKE 'a%'", "CHAR_LENGTH(s) = 1", "id IS NULL", "id <=> 3"]),
)  # fmt: skip
FILTERS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR", "XOR"]), inner).map(
            lambda one: f"({one[0]}) {one[1]} ({one[2]})"
        ),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)


def passing(text: str) -> set[int]:
    """Which rows of the domain pass."""
    rule = row_filter(text, TABLE.in_log)
    columns = dict(zip(["id", "s", "b"], zip(*DOMAIN, strict=True), strict=True))
    types = TABLE.in_log.arrow_schema()
    arrays: list[Any] = [pa.array(columns[name], types.field(name).type) for name in rule.names]
    return {number for number, passes in enumerate(rule.passes(arrays)) if passes}


def equal(number: int) -> tuple[Any, ...]:
    """One for all keys of the domain that the source takes for one."""
    id_, s, b = DOMAIN[number]
    return id_, s.lower().rstrip(" "), b.rstrip(" ")


@settings(max_examples=400)
@given(FILTERS, FILTERS)
def test_no_row_passes_both(one: str, other: str) -> None:
    rows = [ChannelRows.of(replace(TABLE, row_filter=text)) for text in (one, other)]
    keys = [{equal(number) for number in passing(text)} for text in (one, other)]
    if rows[0].overlap(rows[1]) == "":
        assert keys[0].isdisjoint(keys[1])
    assert bool(rows[0].overlap(rows[1])) == bool(rows[1].overlap(rows[0]))


@given(ATOMS)
def test_what_one_comparison_says_is_all_that_passes(text: str) -> None:
    """What is known of it is exact: apart from it is what its NOT lets pass."""
    both = (text, f"NOT ({text})")
    rows = [ChannelRows.of(replace(TABLE, row_filter=one)) for one in both]
    if "NULL" not in text and text[:2] in ("id", "MO", "s ", "S ", "b ") and " % 0" not in text:
        known = not text.startswith(("s LIKE", "id IS", "id <=>")) and text != "id"
        assert (rows[0].overlap(rows[1]) == "") == known, text
