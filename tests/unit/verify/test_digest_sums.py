"""Digests tell all values apart, whoever wrote them; shares of keys give what the whole gives."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_repl.delta.files.digests import digests
from spark_repl.errors import TargetError
from spark_repl.tables.column import GEOMETRY_STRUCT, VECTOR_LIST
from spark_repl.verify import digest_sums
from spark_repl.verify.work_folder import WorkFolder, load, save

_COLUMNS = [
    pa.array([None, 0, 1, -1, 127], pa.int8()),
    pa.array([None, 0, -7046029254386353131, 1 << 62, -1]),
    pa.array([None, "", "a", "a ", "ä"]),
    pa.array([None, b"", b"\0", b"\0\0", b"a"]),
    pa.array([None, 0.0, -0.0, 0.1, 1e300]),
    pa.array([None, 0.0, -0.0, 0.1, 2.5], pa.float32()),
    pa.array([None, True, False]),
    pa.array([None, *map(Decimal, ("0", "1", "18446744073709551616", "-1"))], pa.decimal128(38, 0)),
    pa.array([None, 0, 1], pa.timestamp("us", "UTC")),
    pa.array([None, {"srid": 0, "wkb": b"a"}, {"srid": 1, "wkb": b"a"}], GEOMETRY_STRUCT),
    pa.array([None, [], [0.0], [-0.0], [0.0, 0.0]], VECTOR_LIST),
]


@pytest.mark.parametrize("column", _COLUMNS, ids=lambda column: str(column.type))
def test_every_value_has_its_own_digest(column: pa.Array) -> None:
    made = digests([column], (0,))
    assert len(set(made[1].tolist())) == len(column)
    # A part of a larger array, and one that another reader has made of pieces.
    sliced = pa.concat_arrays([column[3:], column])[len(column[3:]) + 1 :]
    assert digests([sliced], (0,)).tolist() == made[:, 1:].tolist()
    assert digests([column.slice(1)], (0,)).tolist() == made[:, 1:].tolist()


def test_values_do_not_change_places() -> None:
    left, right = pa.array([1, None]), pa.array([None, 1])
    assert not set(digests([left, right], ())[1].tolist()) & set(digests([right, right], ())[1][:1])
    assert digests([left, right], ())[1][0] != digests([right, left], ())[1][0]


@pytest.mark.parametrize("share", [1 << 20, 37])
def test_keys_whose_rows_differ_as_multisets_are_found(
    share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a count of all rows, with keys of several rows, in one share and in many."""
    monkeypatch.setattr(digest_sums, "_SHARE_ROWS", share)
    random = np.random.default_rng(5)
    key = random.integers(0, 1 << 64, 300, np.uint64)[random.integers(0, 300, 900)]
    source = np.stack([key, random.integers(1, 5, 900).astype(np.uint64)])
    target = source[:, random.permutation(900)]
    target = np.concatenate([target[:, 7:], target[:, :2], source[:, :1] + np.uint64(1)], axis=1)
    source = source[:, np.argsort(source[0])]
    source[1] ^= source[0]  # a row's digest includes its key
    target[1] ^= target[0]
    dead = np.concatenate([target, source[:, :9]], axis=1)
    files = [
        ("a", target[:, :500], np.arange(500)),
        ("b", dead[:, 500:], np.arange(target.shape[1] - 500)),
    ]
    found = digest_sums.differing([source[:, :400], source[:, 400:]], files)
    rows = [Counter(zip(*side.tolist(), strict=True)) for side in (source, target)]
    want = {key for key, _ in (rows[0] - rows[1]) + (rows[1] - rows[0])}
    assert want and found.tolist() == sorted(want)


def test_sums_of_a_key_with_several_rows() -> None:
    keys = np.array([2, 5, 9], np.uint64)
    found = digest_sums.sums(
        keys, np.array([5, 5, 1, 9, 12], np.uint64), np.arange(5, dtype=np.uint64)
    )
    assert (found.count.tolist(), found.total.tolist()) == ([0, 2, 1], [0, 1, 3])


def test_digests_round_trip_through_a_file(tmp_path: Path) -> None:
    for rows in (0, 3):
        made = np.arange(2 * rows, dtype=np.uint64).reshape(2, rows)
        save(str(tmp_path / "one.npy"), made)
        assert load(str(tmp_path / "one.npy")).tolist() == made.tolist()


def test_a_second_verify_in_the_folder_is_refused(tmp_path: Path) -> None:
    with WorkFolder(str(tmp_path)), pytest.raises(TargetError, match="another verify"):
        WorkFolder(str(tmp_path)).__enter__()
    with WorkFolder(str(tmp_path)):
        pass
