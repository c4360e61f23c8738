"""The actions that a compaction commits."""

from __future__ import annotations

import json
from pathlib import Path

from spark_repl.write.files.compaction import Compacted, compaction_actions
from spark_repl.write.files.write_task import LiveFile


def test_bounds_of_a_folded_file_are_loose_if_rows_were_marked_meanwhile(tmp_path: Path) -> None:
    """Engines answer MIN, MAX and COUNT from those that are tight."""
    stats = json.dumps({"numRecords": 7, "tightBounds": True})
    new = {"path": "new", "size": 1, "stats": stats}
    done = Compacted((LiveFile("one", None), LiveFile("two", None)), (0, 3, 7), new)
    old = {"path": "two", "size": 1, "partitionValues": {}, "modificationTime": 0}
    for live, tight in (({"one": old, "two": old}, True), ({"two": old}, False)):
        found = compaction_actions(done, str(tmp_path), live, vectors=True, now_ms=1)[-1]["add"]
        assert json.loads(found["stats"]) == {"numRecords": 7, "tightBounds": tight}
        assert ("deletionVector" in found) != tight
