"""Layout: where files are; tables in ``<target>/<database>/<table>``, the applier's state in
``_repl``.

The target has all files that must not be lost: tables, the control table, bytes of prepared XA
branches. Everything else is working state, in ``state_path``. It may be lost at any time, needs
rename and mmap, and is local where the target is on an object store.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...config.renaming import SHARD, numbered, shared_path, whole_of
from ...delta.store import storage
from ...errors import ConfigError
from ...runtime.target_uri import canonical, is_remote, state_folder
from ...user_cache import cache_folder
from .given_paths import GivenPaths

if TYPE_CHECKING:
    from ...config import Target

SAFE = "$-_."  # in addition to letters and digits, which quote() never encodes
# File systems allow 255 bytes; a suffix such as @2 follows.
_LONGEST, _PREFIX = 240, 200
_BROKEN = re.compile("%[0-9A-F]?$")


def encode(name: str) -> str:
    """Return the folder name for a database or table name: UTF-8, percent-encoded except letters,
    digits and -_.$ If the name is too long for a folder, keep its beginning and add a digest after
    ~."""
    encoded = quote(name, safe=SAFE).replace("~", "%7E")
    if len(encoded) > _LONGEST:
        prefix = _BROKEN.sub("", encoded[:_PREFIX])
        encoded = f"{prefix}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    # These three can't name folders, and Delta hides names that begin with _. The name is "" for a
    # database that begins with a dot: names of tables are split at the first one.
    if encoded in ("", ".", ".."):
        return encoded.replace(".", "%2E") or "%"
    return "%5F" + encoded[1:] if encoded.startswith("_") else encoded


@dataclass(frozen=True)
class Layout:
    """Absolute paths, or URIs, of one channel of a target. Raise ConfigError if the target's path
    is not possible."""

    target: str
    state: str = ""
    """folder of the working state"""
    home: str = ""
    """folder below ``_repl``, and below the working state, of everything that belongs to this
    channel; "": none, for the channel that had the target first"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", canonical(self.target))
        state = os.path.join(self.state or self._usual_state(), self.home)
        object.__setattr__(self, "state", os.path.abspath(state))

    @classmethod
    def of(cls, target: Target, home: str = "") -> Layout:
        return cls(target.path, target.state_path, home)

    @staticmethod
    def home_of(channel: str) -> str:
        """Return the ``home`` of a channel that is not the target's first one."""
        return f"channels/{encode(channel)}"

    def _usual_state(self) -> str:
        if is_remote(self.target):
            return str(cache_folder() / "state" / state_folder(self.target))
        return os.path.join(self.target, "_repl")

    def _own(self, name: str) -> str:
        return os.path.join(self.target, "_repl", self.home, name)

    def table(self, path: str) -> str:
        """Return the folder of a table; for a shard, the folder of its Delta table."""
        return os.path.join(self.target, whole_of(path))

    def path_in(self, folder: str, name: str) -> str:
        """Return the path, relative to the target, of a ``folder`` that a catalog has assigned to
        the table ``name``. Raise ConfigError if the folder is outside of the target."""
        path = os.path.relpath(folder, self.target)
        if path.startswith("..") or is_remote(folder) != is_remote(self.target):
            raise ConfigError(
                f"the catalog keeps its managed tables outside of the target: {folder}",
                file=self.target,
                table=name,
                hint="set target.path to a folder above the managed location of the catalog or"
                " schema, or give the schema another one: CREATE SCHEMA ... MANAGED LOCATION",
            )
        return path

    @staticmethod
    def path_of(database: str, table: str) -> str:
        """Return the path of a table, relative to the target."""
        return f"{encode(database)}/{encode(table)}"

    def fresh_path(self, database: str, table: str, used: Container[str] = ()) -> str:
        """Return a path for the table at which nothing exists: with @2, @3, ... if the name was
        used before."""
        return self.free_path(self.path_of(database, table), used)

    def free_path(self, path: str, used: Container[str] = ()) -> str:
        """Return the path, or the same path with a higher number after @, at which nothing
        exists."""
        first, number = numbered(path)
        if isinstance(used, GivenPaths) and (highest := used.highest(first)) >= number:
            number, path = highest + 1, f"{first}@{highest + 1}"
        while path in used or storage.exists(self.table(path)):
            number += 1
            path = f"{first}@{number}"
        return path

    @staticmethod
    def shard_path(whole: str, used: Container[str], *, shared: bool = False) -> str:
        """Return an unused path for a shard in the Delta table at the path ``whole``. ``shared``:
        several channels feed that table."""
        given = used.highest(f"{whole}{SHARD}") if isinstance(used, GivenPaths) else 0
        paths = (
            shared_path(whole, number) if shared else f"{whole}{SHARD}{number}"
            for number in itertools.count(1 if shared else given + 1)
        )
        return next(path for path in paths if path not in used)

    @property
    def control(self) -> str:
        return self._own("control")

    @property
    def move_note(self) -> str:
        """Return the file that exists while a target is being moved to this place."""
        return os.path.join(self.target, "_repl", "move.json")

    @property
    def relay_archive(self) -> str:
        """Return the folder of the relay log's archive, if the configuration names no other."""
        return self._own("relay")

    @property
    def index(self) -> str:
        return os.path.join(self.state, "index")

    def checkpoint(self, epoch: int) -> str:
        """Return the folder of the stream's checkpoint under this owner."""
        return os.path.join(self.state, "checkpoint", str(epoch))

    @property
    def requests(self) -> str:
        """Return the folder of requests to the running applier."""
        return os.path.join(self.state, "requests")

    @property
    def xa(self) -> str:
        """Return the folder of the prepared XA branches' bytes."""
        return self._own("xa")

    @property
    def quarantine(self) -> str:
        """Return the folder of transactions whose changes are kept for tables in quarantine."""
        return self._own("quarantine")

    @property
    def xa_here(self) -> str:
        """Return the folder where workers read the bytes of XA branches: ``xa``, or a local copy if
        that is on an object store."""
        return os.path.join(self.state, "xa") if is_remote(self.target) else self.xa

    @property
    def status(self) -> str:
        return os.path.join(self.state, "status.json")

    @property
    def run(self) -> str:
        return os.path.join(self.state, "run.json")

    @property
    def verify(self) -> str:
        """Return the folder of the digests that ``verify`` has computed, and of its last result."""
        return os.path.join(self.state, "verify")

    @property
    def verified(self) -> str:
        return os.path.join(self.verify, "last.json")

    def staging(self, epoch: int, *, in_target: bool = False) -> str:
        """Return the folder of this owner's work in progress. ``in_target``: executors can't read
        the driver's disk."""
        parent = self._own("staging") if in_target else os.path.join(self.state, "staging")
        return os.path.join(parent, str(epoch))

    def written_to(self, epoch: int) -> list[str]:
        """Return the folders on the driver's disk in which files are replaced as a whole: those of
        the working state, and the lease's if the target is on a disk."""
        checkpoint = self.checkpoint(epoch)
        below = [os.path.join(checkpoint, name) for name in ("offsets", "commits", "sources/0")]
        lease = [] if is_remote(self.target) else [os.path.dirname(self.control)]
        return [*lease, self.state, self.requests, checkpoint, *below]

    def vacuumed(self, path: str) -> str:
        """Return a file whose modification time is that of the table's last VACUUM."""
        return os.path.join(self.state, "vacuumed", path)

    def forgotten(self, path: str) -> str:
        """Return a file whose modification time is the time at which indexes of removed data files
        were last removed."""
        return os.path.join(self.state, "forgotten", path)

    @property
    def durable(self) -> str:
        """Return the folder of notes, by the table's path, that record up to which version a table
        has been synced."""
        return os.path.join(self.state, "durable")

    def replaced(self, path: str) -> str:
        """Return a file whose modification time is when the applier first saw that no row names the
        table."""
        return os.path.join(self.state, "replaced", path)

    def keys(self, path: str, key: Sequence[str] = ()) -> str:
        """Return the folder of the key index of one table. It depends on the names that the key's
        columns have in the data files; without these names, return the folder of all the table's
        indexes."""
        folder = os.path.join(self.state, "keys", path)
        if not key:
            return folder
        return os.path.join(folder, hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16])
