"""DatabaseCharsets: the character sets or collations of databases, as the log's statements set
them.

A table without CHARACTER SET has its database's, which no event contains (Q_CHARSET_DATABASE_CODE
is the session's collation_database). Each CREATE, ALTER and DROP DATABASE leaves a row. The rows up
to a place determine the sets at that place: by the statements' GTIDs, or by position if there are
none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...gtid import GtidSet
from .operator_decisions import skipped

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.cut import Cut

KIND = "database_charset"


class DatabaseCharsets:
    """The ``charsets`` at the log position that is being applied: database -> character set or
    collation. If a database has no entry, its character set is unknown."""

    def __init__(self, control: Control) -> None:
        self._control, self.charsets = control, dict[str, str]()
        self._recorded: set[tuple[int, str, str]] = set()

    def load(self, cut: Cut | None) -> None:
        """Read the character sets as of ``cut``."""
        at, executed = (cut.position, GtidSet.parse(cut.gtid_executed)) if cut else (-1, GtidSet())
        self.charsets, self._recorded = {}, set()
        skip = skipped(self._control)
        rows = sorted(self._control.rows(KIND), key=lambda row: (row["position"], row["at"]))
        for row in rows:
            gtid, detail = row["gtid_executed"], json.loads(row["detail"])
            self._recorded.add((row["position"], gtid, detail["name"]))
            if not (GtidSet.parse(gtid).issubset(executed) if gtid else row["position"] <= at):
                continue
            # A row of a statement that an operator skipped later has what it would have made.
            if detail.get("ended") or (gtid and GtidSet.parse(gtid).issubset(skip)):
                self.charsets.pop(detail["name"], None)
            else:
                self.charsets[detail["name"]] = detail["charset"]

    def put(self, name: str, charset: str, cut: Cut) -> None:
        """Record the character set of a database, which is valid from the statement before ``cut``
        on."""
        self._record({"name": name, "charset": charset}, cut)
        self.charsets = {**self.charsets, name: charset}

    def end(self, name: str, cut: Cut) -> None:
        """Record that the database no longer exists from the statement before ``cut`` on."""
        if name in self.charsets:
            self._record({"name": name, "ended": True}, cut)
            self.charsets = {
                other: charset for other, charset in self.charsets.items() if other != name
            }

    def _record(self, fields: dict[str, object], cut: Cut) -> None:
        row = cut.position, cut.group_gtids, str(fields["name"])
        if row not in self._recorded:
            self._control.add_pending(
                KIND,
                position=cut.position,
                gtid_executed=cut.group_gtids,
                detail=json.dumps(fields, ensure_ascii=False),
            )
            self._recorded.add(row)
