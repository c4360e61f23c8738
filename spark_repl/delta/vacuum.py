"""VACUUM from a table's own log: files go that no version within the table's retention names.

Delta protocol, sections "Add File and Remove File" and "Change Data Files". A file stays if the
newest version names it, or a ``remove`` that is younger than the table's
``delta.deletedFileRetentionDuration``. Two rules are Delta's own. A file younger than that stays,
since a commit that names it may be under way. So does a name that begins with ``_`` or ``.``,
except below ``_change_data``. Beside these rules, what killed writers leave is removed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..runtime.object_store import is_remote
from . import deletion_vector, features, log_state
from .checkpoint_writer import reconciled
from .intervals import retained_hours
from .snapshot import Snapshot
from .storage import UNFINISHED, inner_path, walk

if TYPE_CHECKING:
    from .removing import Remover

_CHANGES = "_change_data"
_OTHER = r"%|\.\.|^\./|//|^/|^[A-Za-z][A-Za-z0-9+.-]+:/"
"""paths in a log that are not as ``walk`` yields them"""


def vacuum(folder: str, remover: Remover, now_s: float, spared: Collection[str] = ()) -> int:
    """Remove files of the table that no version needs that was retained at ``now_s`` (seconds since
    1970), but for those that are ``spared`` (paths relative to the table). Return how many, without
    Hadoop's checksums of them.

    ``spared`` must be read after ``now_s``: then a file needed later is retained or spared. Raises
    OSError, FencedError, and TargetError for a log that does not reach back, or that has a feature
    which is not known.
    """
    files = list(walk(folder))  # before the log is read: what it names later is younger
    state = log_state.load(folder)
    if state is None:
        return 0
    snapshot = Snapshot.of(folder, state)
    features.check(snapshot)
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
    """Return where Hadoop's checksums of local files are."""
    places = (os.path.split(path) for path in paths if not is_remote(path))
    checksums = (os.path.join(folder, f".{name}.crc") for folder, name in places)
    return [path for path in checksums if os.path.lexists(path)]


def _is_text(path: str) -> bool:
    """Whether a path is UTF-8: a log can't name any other."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_candidate(path: str, partition_columns: Collection[str]) -> bool:
    """Return whether a file below a table's folder may be one of data, changes or vectors, or what
    a killed writer left."""
    folders = tuple(f"{name}=" for name in partition_columns)
    *above, name = path.split("/")
    shown = [part for part in above if not part.startswith(folders) and part != _CHANGES]
    if not UNFINISHED.fullmatch(name):
        shown.append(name)
    return not any(part.startswith(("_", ".")) for part in shown)


def _named(snapshot: Snapshot, now_s: float) -> list[str]:
    """Return the paths, relative to the table, of the files that the newest version names, and of
    those that were removed within the retention."""
    named = list[str | None]()
    folder = snapshot.folder
    for table in reconciled(folder, snapshot.state, now_s):
        other = pc.match_substring_regex(table["path"], _OTHER)
        named += table["path"].filter(pc.invert(other)).to_pylist()
        named += [inner_path(folder, path) for path in table["path"].filter(other).to_pylist()]
        vectors = table["deletionVector"].drop_null().to_pylist()
        named += [deletion_vector.inner_path_of(folder, vector) for vector in vectors]
    return [path for path in named if path is not None]
