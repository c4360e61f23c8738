"""The decoder against a real server's log: folding its row changes gives the server's tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spark_repl.binlog.rows.walk import walk
from tests.support.decoder_log import printed, read_log
from tests.support.oltp_corpora import CORPORA


@pytest.mark.parametrize(("corpus", "changes"), CORPORA)
def test_end_state_of_a_corpus(corpus: Path, changes: int) -> None:
    buffer, starts, ends, positions = read_log(corpus / "binlog.000001")
    tables = walk(buffer, starts, ends, positions, True)
    assert sum(images.changes for images in tables) > changes
    expected = {path.stem for path in (corpus / "expected").glob("*.jsonl")}
    assert {images.definition.name for images in tables} == expected
    for images in tables:
        _, last = np.unique(images.key().to_numpy(zero_copy_only=False)[::-1], return_index=True)
        last = len(images.flags) - 1 - last
        alive = last[images.flags[last] & 2 == 2]
        lines = (corpus / "expected" / f"{images.definition.name}.jsonl").read_text().splitlines()
        named = [column["name"] for column in json.loads(lines[0])["columns"]]
        assert [column.name for column in images.definition.columns] == named
        want = sorted(json.loads(line) for line in lines[1:])
        assert sorted(printed(images.decode(alive), images.definition)) == want
        assert (np.diff(images.transaction) >= 0).all()
