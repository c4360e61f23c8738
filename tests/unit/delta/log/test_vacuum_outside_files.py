"""Files that a table's log names and that lie outside of its folder, as in a shallow clone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.delta_columns import Columns, open_file, schema_json, write_file
from spark_repl.delta.log.table_protocol import check_file_paths
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.remover import Remover
from spark_repl.errors import TargetError
from spark_repl.write.upkeep.file_retention import files_of
from tests.unit.delta.log.test_log_state import VECTORS, Table, add

RETENTION = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """The table's folder needs to be encoded in a URI."""
    return Table(tmp_path / "a b" / "t", {**VECTORS, **RETENTION})


def aged(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(b"x")
    os.utime(path, (1, 1))
    return path


def uri(path: Path) -> str:
    return f"file:{path}".replace(" ", "%20")


def test_a_clone_is_read_and_its_files_stay(table: Table, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    path = source / write_file(str(source), Columns.of(schema_json(ROWS.schema)), ROWS)["path"]
    (vector,) = deletion_vector.write(str(source), [BitMap([1])])
    file = deletion_vector.path_of(str(source), vector)
    assert file is not None
    vector |= {"storageType": "p", "pathOrInlineDv": uri(Path(file))}
    table.commit(add(uri(path), deletionVector=vector))
    with open_file(table.folder, uri(path)) as opened:
        assert opened.read().to_pydict() == ROWS.to_pydict()
    assert deletion_vector.read(table.folder, vector) == BitMap([1])
    aged(path), aged(Path(file))
    for _ in ("live", "removed"):
        vacuum(table.folder, Remover(), time.time())
        assert path.exists() and Path(file).exists()
        table.commit({"remove": {"path": uri(path), "deletionTimestamp": 1, "dataChange": True}})


def test_a_vector_that_a_uri_names_stays(table: Table) -> None:
    file = aged(Path(table.folder, "deletion_vector_1.bin"))
    vector = {"storageType": "p", "pathOrInlineDv": uri(file), "offset": 1, "sizeInBytes": 1}
    table.commit(add("a", deletionVector={**vector, "cardinality": 1}))
    assert vacuum(table.folder, Remover(), time.time()) == 0
    assert file.exists()


def test_a_pinned_file_that_a_uri_names_stays(table: Table) -> None:
    """No version but the pinned one names it any more."""
    file, gone = (aged(Path(table.folder, f"{name}.parquet")) for name in ("pinned", "gone"))
    pinned = table.commit(add(uri(file))).version
    table.commit({"remove": {"path": uri(file), "deletionTimestamp": 1, "dataChange": True}})
    spared = files_of(table.folder, [pinned])
    assert spared == {"pinned.parquet"}
    assert vacuum(table.folder, Remover(), time.time(), spared) == 1
    assert file.exists() and not gone.exists()


def test_files_in_the_folder_are_no_others(table: Table, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(table.folder)
    paths = ["a", "p=..%2Fb/c", "a..b", "x/../b", uri(Path(table.folder, "x")), f"file://{link}/x"]
    check_file_paths(table.folder, pa.array(paths))
    remote = "s3a://bank/lake/t"
    check_file_paths(remote, pa.array(["a", f"{remote}/b", "s3://bank/lake/t/c/d%20e"]))


@pytest.mark.parametrize(
    "path", ["../s/a", "x/../../a", "/s/a", "file:/s/a", "%2E%2E/a", "s3://b/a"]
)
def test_files_elsewhere_are_refused_by_name(table: Table, path: str) -> None:
    paths = pa.array(["a", path])
    with pytest.raises(TargetError, match="outside of its folder") as refused:
        check_file_paths(table.folder, paths, table="db.t")
    assert path in str(refused.value) and refused.value.table == "db.t"


@pytest.mark.parametrize("path", ["s3://bank/lake/t2/a", "s3a://other/lake/t/a", "../t2/a"])
def test_objects_elsewhere_are_refused_by_name(path: str) -> None:
    with pytest.raises(TargetError, match="outside of its folder"):
        check_file_paths("s3a://bank/lake/t", pa.array([path]))
