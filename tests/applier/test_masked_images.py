"""Masked columns in row images without all columns, and with JSON diffs: a real log in which
MINIMAL, NOBLOB and FULL alternate gives the server's rows, masked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kept_stage import kept_too
from tests.support.local_delta import last_shown, run
from tests.support.planted import hashed

FOLDER = Path(__file__).parents[1] / "fixtures" / "row_images"
EXPECTED: dict[str, list[list[str | None]]] = json.loads((FOLDER / "expected.json").read_text())
RULES: list[dict[str, Any]] = [
    {"match": "images.wide", "exclude": ["g", "h", "bt", "dt"], "mask": {"j": "null"}},
    {"match": "images.pair", "mask": {"j": "null"}},
]


def test_no_diff_of_a_masked_document_is_kept(tmp_path: Path) -> None:
    """Neither its words nor those of a whole document are in a file, and none is asked for."""
    kept, target = tmp_path / "kept", tmp_path / "lake"
    given = {"filters": {"do_table": ["images.wide", "images.pair"]}, "tables": RULES}
    assert run(FOLDER, target, group_max_transactions=25, parts=kept_too(kept), **given)
    shown = last_shown(target)
    wanted = [[*row[:4], None, *row[5:7]] for row in EXPECTED["images.wide"]]
    assert sorted(map(_texts, shown["images.wide"]), key=repr) == sorted(wanted, key=repr)
    assert len(shown["images.pair"]) == len(EXPECTED["images.pair"])
    assert all(row[3] is None for row in shown["images.pair"])
    for path in [*kept.iterdir(), *(p for p in target.rglob("*") if p.is_file())]:
        assert not any(word in path.read_bytes() for word in (b"three", b"$.l", b"a key")), path


WIDE_MASKS = {
    "n": "sha256", "s": "sha256", "t": "truncate:2", "j": "null", "d": "sha256", "e": "sha256",
}  # fmt: skip


@pytest.mark.parametrize("group", [7, 40])
def test_what_an_image_lacks_is_masked_too(tmp_path: Path, mask_key: str, group: int) -> None:
    """An INSERT leaves out columns that have a default: what the target has is the masked one."""
    rule = {"match": "images.wide", "exclude": ["g", "h", "bt", "dt"], "mask": WIDE_MASKS}
    uniq = {"match": "images.uniq", "mask": {"m": "sha256"}}
    assert run(
        FOLDER, tmp_path / "lake", group_max_transactions=group, tables=[rule, uniq],
        filters={"do_table": ["images.wide", "images.uniq"]}, keys={"mask_key_env": "MASK_KEY"},
    )  # fmt: skip
    shown = last_shown(tmp_path / "lake")
    wanted = [
        [i, hashed(n), hashed(s), t and t[:2], None, hashed(d), hashed(e)]
        for i, n, s, t, _, d, e, *_ in EXPECTED["images.wide"]
    ]
    assert sorted(map(_texts, shown["images.wide"]), key=repr) == sorted(wanted, key=repr)
    uniqs = [[u, n, hashed(m)] for u, n, m in EXPECTED["images.uniq"]]
    assert sorted(map(_texts, shown["images.uniq"]), key=repr) == sorted(uniqs, key=repr)


def _texts(row: tuple[Any, ...]) -> list[str | None]:
    return [None if value is None else str(value) for value in row]
