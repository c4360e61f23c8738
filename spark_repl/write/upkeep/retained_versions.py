"""Promised versions of the tables: what log clean-up and VACUUM have to leave, so that each cut
that is kept can be read."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ...config.renaming import is_shared, whole_of
from ...control.copies import standing
from ...control.pins import pins
from ...control.table_paths import made_behind
from ...delta.add_actions import live_files
from ...delta.deletion_vector import path_of
from ...delta.storage import data_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...control.control import Control
    from ...control.cut import Cut


Versions = dict[str, set[int]]


def _add(versions: Versions, cut: Cut) -> None:
    for table in cut.tables.values():
        versions.setdefault(whole_of(table.path), set()).add(table.version)


class Promised:
    """Versions by the path of their Delta table. ``kept``: those of all cuts; ``pinned``: of those
    that are pinned; ``begin``: those behind which a start looks at every commit. Of several
    ``controls``, of the channels that may feed one table, what any of them promises."""

    def __init__(self, *controls: Control) -> None:
        self.kept, self.pinned, self._begin = Versions(), Versions(), Versions()
        for control in controls:
            self._read(control)
        self.begin = {path: min(versions) for path, versions in self._begin.items()}

    def _read(self, control: Control) -> None:
        held = {pin.cut for pin in pins(control).values()}
        rows = control.held()
        for row in rows.cut_rows():
            # What a cut shows its own row tells, or that of another one, which is kept as well.
            for told in json.loads(row["detail"])["tables"].values():
                self.kept.setdefault(whole_of(told["path"]), set()).add(told["version"])
            if (row["position"], row["at"]) in held:
                _add(self.pinned, rows.cut_of(row))
        stands = standing(control)
        for needed in (stands.begin, stands.needed, stands.cut):
            if needed is not None:
                _add(self._begin, needed)
        for made in made_behind(control, stands.cut):
            if is_shared(made.path):
                self._begin.setdefault(whole_of(made.path), set()).add(made.since)
        for path, version in (stands.copy.since if stands.copy else {}).items():
            self._begin.setdefault(path, set()).add(version)


def files_of(folder: str, versions: Iterable[int]) -> set[str]:
    """The files, relative to the table at ``folder``, that its versions name. Raises TargetError
    for a version that can't be read any more."""
    files: set[str] = set()
    for version in versions:
        live = live_files(folder, version)
        for path, add in live.items():
            files.add(data_file("", path))
            vector = add.get("deletionVector")
            if vector and (name := path_of(folder, vector)):
                files.add(os.path.relpath(name, folder))
    return files
