"""The files of versions that are pinned, which VACUUM has to leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap

from spark_repl.delta import deletion_vector
from spark_repl.errors import TargetError
from spark_repl.write.upkeep.file_retention import files_of
from tests.support.local_delta import put

METADATA = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "m", "schemaString": "{}", "partitionColumns": [], "configuration": {}}},
]


def added(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 1, **more}}


def test_files_and_vectors_of_the_versions_that_are_named(tmp_path: Path) -> None:
    """Each version's own: also what the next one has removed, and no file of others."""
    folder = str(tmp_path / "t")
    put(folder, 0, [*METADATA, added("a%20b.parquet"), added("p=x/b.parquet")])
    (vector,) = deletion_vector.write(folder, [BitMap([1])])
    marked = added("p=x/b.parquet", deletionVector=vector)
    put(folder, 1, [{"remove": {"path": "a%20b.parquet"}}, added("c.parquet")])
    put(folder, 2, [{"remove": {"path": "p=x/b.parquet"}}, marked])
    put(folder, 3, [{"remove": {"path": "p=x/b.parquet", "deletionVector": vector}}])
    (name,) = (path.name for path in Path(folder).glob("*.bin"))
    assert files_of(folder, {0}) == {"a b.parquet", "p=x/b.parquet"}
    assert files_of(folder, {0, 2}) == {"a b.parquet", "p=x/b.parquet", "c.parquet", name}
    assert files_of(folder, {3}) == {"c.parquet"}


def test_a_version_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    """Nothing is known of its files: VACUUM may not go on."""
    folder = str(tmp_path / "t")
    put(folder, 0, [*METADATA, added("a.parquet")])
    with pytest.raises(TargetError, match="version 1 of the table's log is gone") as raised:
        files_of(folder, {0, 7})
    assert raised.value.file == folder
