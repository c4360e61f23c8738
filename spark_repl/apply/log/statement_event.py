"""Logged: one statement of the log, with what surrounds it, and what it has come to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...gtid import GtidSet
from ...relay.source_place import SourcePlace
from ...sql.shown_text import without_literals, without_secrets

if TYPE_CHECKING:
    from ...binlog.events.event import FormatDescription, Query
    from ...control.table.cut import Cut
    from ...sql.ddl_outcome import DdlOutcome
    from ...sql.session import Session
    from ...sql.statement import Statement

_TEXT_MAX = 200


@dataclass(frozen=True)
class Logged:
    """``cut``: what a cut behind the statement says; ``source``, ``session``: which said it;
    ``committed_us``: when it was committed, microseconds UTC; ``position``: where it begins in the
    relay log, packed; ``literals``: whether messages may show those of its text."""

    statement: Statement
    query: Query
    cut: Cut
    source: FormatDescription
    session: Session
    committed_us: int = 0
    position: int = 0
    literals: bool = True

    @property
    def text(self) -> str:
        return shown(self.query, self.session, literals=self.literals)

    @property
    def name(self) -> str:
        """What tells the statement from others: its GTID, or where it ends on the source, or in a
        log that doesn't say that where it ends there."""
        place = SourcePlace.of(self.cut.source)
        return self.cut.group_gtids or str(place or self.cut.position)


@dataclass(frozen=True)
class Done:
    """What a statement has come to. ``names``: of the tables it concerns."""

    way: DdlOutcome
    text: str
    names: tuple[str, ...] = ()

    @property
    def tables(self) -> str:
        return ", ".join(self.names)


def shown(query: Query, session: Session, *, literals: bool) -> str:
    """Return a statement's text in one line, as messages have it. ``literals``: whether those of a
    statement about tables may be in it, but for secrets."""
    show = without_secrets if literals else without_literals
    text = show(query.text, session.sql_mode)
    flat = " ".join(text.split())
    return flat if len(flat) <= _TEXT_MAX else flat[:_TEXT_MAX] + "..."


def before(cut: Cut) -> Cut:
    """The cut within the transaction, before what is left of it."""
    executed = GtidSet.parse(cut.gtid_executed).subtract(GtidSet.parse(cut.group_gtids))
    return replace(
        cut,
        position=cut.position - 1,
        gtid_executed=str(executed),
        group_gtids="",
        source=cut.begin,
    )
