"""A log that a benchmark makes is one that a server could have written."""

from __future__ import annotations

from spark_repl.bench.ddl import GeneratedLog
from spark_repl.decode.read_changes import read_changes
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import Kind


def test_a_generated_log_has_its_statements_and_rows(tmp_path):
    made = GeneratedLog(tmp_path / "log")
    made.statement("CREATE TABLE filled (id INT PRIMARY KEY, a INT, v VARCHAR(40))")
    made.insert("filled", 0, 12_000)
    made.close()
    records = build_index(open_log(str(tmp_path / "log")), str(tmp_path / "index")).records
    assert records["kind"].tolist() == [Kind.QUERY, Kind.ROWS]
    images = [
        image
        for batch in read_changes(str(tmp_path / "log" / "binlog.000001"))
        for image in batch.column("after").to_pylist()
    ]
    assert len(images) == 12_000
    assert images[-1] == {"id": 11_999, "a": 999, "v": "0000000000011999"}
