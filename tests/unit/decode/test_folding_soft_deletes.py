"""Net changes of a table that keeps deleted rows, beside the same changes one at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spark_repl.binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS
from spark_repl.decode.folding import certain, fold

INSERT, UPDATE, DELETE = EXISTS, EXISTED | EXISTS, EXISTED


def one_by_one(before: str, kinds: tuple[int, ...], *, lenient: bool) -> tuple[str, int] | None:
    """(what is left, the change that left it; -1: none) of a key that was "live", "deleted" or ""
    before; None where it does not fit."""
    state, left = before, -1
    for number, kind in enumerate(kinds):
        fits = (state == "live") == bool(kind & EXISTED)
        if not fits and not lenient:
            return None
        if not fits and kind != INSERT:
            continue
        state, left = ("deleted" if kind == DELETE else "live"), number
    return state, left


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("before", ["live", "deleted", ""])
def test_the_fold_and_what_the_target_has(before: str, lenient: bool) -> None:
    tried = 0
    for count in range(1, 6):
        for kinds in itertools.product((INSERT, UPDATE, DELETE), repeat=count):
            want = one_by_one(before, kinds, lenient=lenient)
            if want is None:
                continue
            tried += 1
            flags = np.array(kinds, np.uint8)
            flags = certain(flags) if lenient else flags
            net = fold(np.zeros(count, np.int32), 1, flags, soft=True)
            bits, entry = int(net.flags[0]), int(net.entry[0])
            assert bits & EXISTS and (lenient or not net.breaks), kinds
            if not lenient:
                assert bool(bits & EXISTED) == (before == "live"), kinds
            counts = not lenient or before == "live" or bits & CERTAIN
            state = "deleted" if kinds[entry] == DELETE else "live"
            assert ((state, entry) if counts else (before, -1)) == want, kinds
    assert tried > 9


@pytest.mark.parametrize(
    ("kinds", "number"),
    [([INSERT, INSERT], 1062), ([DELETE, UPDATE], 1032), ([INSERT, DELETE, DELETE], 1032)],
)
def test_a_log_that_contradicts_itself_is_found(kinds: list[int], number: int) -> None:
    net = fold(np.zeros(len(kinds), np.int32), 1, np.array(kinds, np.uint8), soft=True)
    assert net.breaks == [(len(kinds) - 1, number)]
