"""Detecting changes that a foreign key cascades to other tables without the source logging it.

Up to MySQL 9.5, and later with innodb_native_foreign_keys=ON, the storage engine executes ON DELETE
and ON UPDATE, and the log has the parent's row only. If the server itself executes them, every rows
event has the flag USE_SQL_FOREIGN_KEY, and the log has the children's rows as well. The applier
refuses a change that cascades unlogged, or emulates the cascade (``write.cascades``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..binlog.kernels.jit import DELETE, FLAGS, KIND, REFERRED_FK_DB, TRANSACTION
from ..errors import DecodeError
from ..position import RelayPosition
from ..tables.case_folding import fold

if TYPE_CHECKING:
    from ..binlog.rows.row_images import RowImages
    from ..tables.source_table import SourceTable
    from ..tables.table_keys import ForeignKey

_NAMED_MAX = 5
_HINT = (
    "have the source log such changes (MySQL 9.6 or newer, innodb_native_foreign_keys=OFF), or take"
    " the action out of the foreign key; then copy the tables again, from behind this transaction"
)
_EMULATE = 'ddl.cascades = "emulate" with apply.preserve_commit_order = true applies it; or '
_UNKNOWN_HINT = (
    "if no foreign key that references the table has ON DELETE or ON UPDATE with CASCADE, SET NULL"
    " or SET DEFAULT, name it in ddl.without_cascades; else " + _HINT
)


@dataclass(frozen=True)
class Seen:
    """Positions of the first change of one table that cascades, and of the first that may.

    ``cascades``: a known foreign key has an action for the change. ``referred``: the TABLE_MAP
    declares that some foreign key references the table. None: no change is of that kind.
    """

    cascades: int | None = None
    referred: int | None = None


@dataclass(frozen=True)
class Cascades:
    """The foreign keys with actions among the target's tables.

    - ``keys``: referenced table -> (referencing table, its key) of each key with an action.
    - ``unknown``: tables of the target whose keys no statement and no copy has declared.
    - ``harmless``: tables that no action changes, by the configuration.
    - ``emulated``: changes that cascade are recorded, not refused.

    Referenced and harmless tables have names in lower case, because how the source compares names
    is not always known.
    """

    keys: Mapping[str, tuple[tuple[str, ForeignKey], ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    harmless: frozenset[str] = frozenset()
    emulated: bool = False

    @classmethod
    def of(
        cls,
        tables: Mapping[str, tuple[ForeignKey, ...] | None],
        harmless: Collection[str],
        *,
        emulated: bool = False,
    ) -> Cascades:
        """Return the foreign keys of ``tables``, a map of each table to its own keys.

        ``harmless``: tables that no action changes (``ddl.without_cascades``).
        """
        keys: dict[str, list[tuple[str, ForeignKey]]] = {}
        for child, own in tables.items():
            for key in own or ():
                if key.on_delete or key.on_update:
                    keys.setdefault(fold(key.parent), []).append((child, key))
        by_parent = {name: tuple(children) for name, children in keys.items()}
        unknown = sorted(name for name, own in tables.items() if own is None)
        return cls(by_parent, tuple(unknown), frozenset(map(fold, harmless)), emulated)

    def check(
        self, images: RowImages, positions: npt.NDArray[np.int64], applied: Any = None
    ) -> Seen:
        """Return the first changes of one table that cascade, and that may cascade, to other
        tables. Raise DecodeError for the first change that does, unless it is emulated.
        ``positions`` and ``applied`` (whether the table already has it) have one entry for each
        transaction. Applied transactions are ignored unless changes are emulated, because other
        tables may lack their effects."""
        name = images.definition.name
        lower = fold(name)
        if lower in self.harmless:
            return Seen()
        events = images.left_to_the_engine()
        if applied is not None and not self.emulated:
            events = events[~applied[events[:, TRANSACTION]]]
        if not len(events):
            return Seen()
        cascading = [
            (int(positions[events[event, TRANSACTION]]), child, key)
            for child, key in self.keys.get(lower, ())
            if (event := _first(images, events, key)) is not None
        ]
        first = None
        if cascading:
            first, child, key = min(cascading, key=lambda change: change[0])
            if not self.emulated:
                raise refusal(name, first, child, key)
        referred = np.flatnonzero(events[:, FLAGS] & REFERRED_FK_DB)
        at = int(positions[events[referred[0], TRANSACTION]]) if len(referred) else None
        return Seen(first, at)


def _first(images: RowImages, events: npt.NDArray[np.int64], key: ForeignKey) -> int | None:
    """Return the index of the first event that the key cascades."""
    indexes = []
    if key.on_delete:
        indexes += np.flatnonzero(events[:, KIND] == DELETE)[:1].tolist()
    if key.on_update:
        columns = _columns(images.definition, key)
        updates = np.flatnonzero(events[:, KIND] != DELETE)
        if not images.definition.columns:  # not applied: which ones change is not known
            at = 0 if len(updates) else None
        else:
            at = images.first_update(events[updates], columns) if len(updates) else None
        indexes += [] if at is None else [int(updates[at])]
    return min(indexes, default=None)


def _columns(definition: SourceTable, key: ForeignKey) -> list[int]:
    """Return the numbers of the referenced columns; all columns if they are not known."""
    names = [column.name.lower() for column in definition.columns]
    wanted = [name.lower() for name in key.referenced]
    if set(wanted) <= set(names):
        return [names.index(name) for name in wanted] or list(definition.primary_key)
    return list(range(len(names)))


def _of_cascade(message: str, table: str, position: int, hint: str) -> DecodeError:
    error = DecodeError(message, table=table, position=RelayPosition.unpack(position), hint=hint)
    error.is_of_cascade = True
    return error


def refusal(name: str, position: int, child: str, key: ForeignKey) -> DecodeError:
    """Return the DecodeError for a change in table ``name`` that ``key`` cascades to ``child``."""
    actions = [
        f"ON {verb} {action}"
        for verb, action in (("DELETE", key.on_delete), ("UPDATE", key.on_update))
        if action
    ]
    return _of_cascade(
        f"the source has changed rows of {child} with this change, by the foreign key {key.name}"
        f" ({' '.join(actions)}), and its log does not hold them",
        table=name,
        position=position,
        hint=_EMULATE + _HINT,
    )


def unknown_refusal(name: str, at: int, unknown: Sequence[str]) -> DecodeError:
    """Return the DecodeError for a change that a foreign key of ``unknown`` tables may cascade."""
    return _of_cascade(
        "the source may have changed rows of other tables with this change, by a foreign key, and"
        " its log does not hold them: the log does not tell the foreign keys of"
        f" {', '.join(unknown[:_NAMED_MAX])}{', ...' * (len(unknown) > _NAMED_MAX)}",
        table=name,
        position=at,
        hint=_UNKNOWN_HINT,
    )
