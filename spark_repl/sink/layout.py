"""Where things lie under a target: ``<target>/<database>/<table>`` our own state in ``_repl``."""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass
from urllib.parse import quote

SAFE = "$-_."  # besides letters and digits, which quote() never touches


def encode(name: str) -> str:
    """A database or table name as a folder: UTF-8, percent-encoded but for letters, digits, -_.$"""
    encoded = quote(name, safe=SAFE).replace("~", "%7E")
    # These two are not names of folders, and _-names are hidden from Delta.
    if encoded in (".", ".."):
        return encoded.replace(".", "%2E")
    return "%5F" + encoded[1:] if encoded.startswith("_") else encoded


@dataclass(frozen=True)
class Layout:
    """Absolute paths below one target."""

    target: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", os.path.abspath(self.target))

    def table(self, path: str) -> str:
        return os.path.join(self.target, path)

    @staticmethod
    def path_of(database: str, table: str) -> str:
        """The path of a table, relative to the target."""
        return f"{encode(database)}/{encode(table)}"

    def fresh_path(self, database: str, table: str, used: Container[str] = ()) -> str:
        """A path of the table where nothing is yet: with @2, @3, ... behind one that was used."""
        path = first = self.path_of(database, table)
        number = 1
        while path in used or os.path.exists(self.table(path)):
            number += 1
            path = f"{first}@{number}"
        return path

    @property
    def state(self) -> str:
        return os.path.join(self.target, "_repl")

    @property
    def control(self) -> str:
        return os.path.join(self.state, "control")

    @property
    def index(self) -> str:
        return os.path.join(self.state, "index")

    @property
    def checkpoint(self) -> str:
        return os.path.join(self.state, "checkpoint")

    @property
    def requests(self) -> str:
        """Folder of what the running applier is asked to do."""
        return os.path.join(self.state, "requests")

    @property
    def xa(self) -> str:
        """Folder of the prepared XA branches' bytes."""
        return os.path.join(self.state, "xa")

    @property
    def status(self) -> str:
        return os.path.join(self.state, "status.json")

    @property
    def staging(self) -> str:
        return os.path.join(self.state, "staging")

    def vacuumed(self, path: str) -> str:
        """A file whose time is that of the table's last VACUUM."""
        return os.path.join(self.state, "vacuumed", path)

    def replaced(self, path: str) -> str:
        """A file whose time is when it was first seen that nothing names the table."""
        return os.path.join(self.state, "replaced", path)

    def keys(self, path: str) -> str:
        """Folder of the key index of one table."""
        return os.path.join(self.state, "keys", path)
