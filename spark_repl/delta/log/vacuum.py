"""VACUUM from a table's own log: removes files that no version within the table's retention names.

Delta protocol, sections "Add File and Remove File" and "Change Data Files". A file stays if the
newest version names it, or a ``remove`` that is younger than the table's
``delta.deletedFileRetentionDuration``. Two rules are Delta's own. A file younger than that stays,
since a commit that names it may be in progress. A file whose name begins with ``_`` or ``.`` also
stays, except below ``_change_data``. Beside these rules, files that killed writers left are
removed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ...runtime.target_uri import is_remote
from ..files import deletion_vector
from ..store.storage import UNFINISHED, inner_path, walk
from . import log_state, table_protocol
from .checkpoint_writer import reconciled
from .retention_properties import retained_hours
from .table_snapshot import Snapshot

if TYPE_CHECKING:
    from ..store.remover import Remover

_CHANGES = "_change_data"
_OTHER = r"%|\.\.|^\./|//|^/|^[A-Za-z][A-Za-z0-9+.-]+:/"
"""paths in a log that ``walk`` yields in another form"""


def vacuum(folder: str, remover: Remover, now_s: float, spared: Collection[str] = ()) -> int:
    """Remove files of the table that no version needs which was retained at ``now_s`` (seconds
    since 1970). Return the number of removed files, not counting Hadoop's checksums.

    Files in ``spared`` (paths relative to the table) stay. ``spared`` must be read after ``now_s``,
    so that a file that is needed later is either retained or spared. Raise OSError, FencedError,
    and TargetError for a log that does not reach back or has an unknown feature.
    """
    files = list(walk(folder))  # before the log is read: files that it names later are younger
    state = log_state.load(folder)
    if state is None:
        return 0
    snapshot = Snapshot.of(folder, state)
    table_protocol.check(snapshot)
    before_s = now_s - 3600 * retained_hours(snapshot.configuration)
    old = [
        path
        for path, file in files
        if file.modified < before_s
        and _is_text(path)
        and _is_candidate(path, snapshot.partition_columns)
    ]
    if not old:
        return 0
    needed = pa.array([*_named(snapshot, now_s), *spared], pa.string())
    paths = pa.array(old, pa.string())
    gone = paths.filter(pc.invert(pc.is_in(paths, needed))).to_pylist()
    chosen = [os.path.join(folder, path) for path in gone]
    remover.files([*chosen, *_checksums_of(chosen)])
    return len(chosen)


def _checksums_of(paths: list[str]) -> list[str]:
    """Return the paths of Hadoop's checksums of local files."""
    places = (os.path.split(path) for path in paths if not is_remote(path))
    checksums = (os.path.join(folder, f".{name}.crc") for folder, name in places)
    return [path for path in checksums if os.path.lexists(path)]


def _is_text(path: str) -> bool:
    """Return whether a path is UTF-8: a log can't name any other."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_candidate(path: str, partition_columns: Collection[str]) -> bool:
    """Return whether a file below a table's folder may be a file of data, changes or vectors, or
    one that a killed writer left."""
    folders = tuple(f"{name}=" for name in partition_columns)
    *above, name = path.split("/")
    checked = [part for part in above if not part.startswith(folders) and part != _CHANGES]
    if not UNFINISHED.fullmatch(name):
        checked.append(name)
    return not any(part.startswith(("_", ".")) for part in checked)


def _named(snapshot: Snapshot, now_s: float) -> list[str]:
    """Return the paths, relative to the table, of the files that the newest version names, and of
    those removed within the retention."""
    named = list[str | None]()
    folder = snapshot.folder
    for table in reconciled(folder, snapshot.state, now_s):
        named += inner_paths(folder, table["path"], table["deletionVector"])
    return [path for path in named if path is not None]


def inner_paths(
    folder: str, paths: pa.ChunkedArray | pa.Array, vectors: pa.ChunkedArray | pa.Array
) -> list[str | None]:
    """Return the paths, relative to the table at ``folder``, of files that its log names, and of
    those of deletion vectors. None stands for a file outside of the folder."""
    other = pc.match_substring_regex(paths, _OTHER)
    inner = [inner_path(folder, path) for path in paths.filter(other).to_pylist()]
    fields = ("storageType", "pathOrInlineDv")
    places = pa.table([pc.struct_field(vectors.drop_null(), name) for name in fields], fields)
    distinct = places.group_by(list(fields)).aggregate([]).to_pylist()  # a file has many vectors
    inner += [deletion_vector.inner_path_of(folder, place) for place in distinct]
    return [*paths.filter(pc.invert(other)).to_pylist(), *inner]
