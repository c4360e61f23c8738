"""``[[tables]]``: rules for the tables that match a pattern; the first match applies."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from . import rules
from .renaming import SHARD
from .wildcards import covers

MODE_COLUMNS = {
    "changelog": ("gtid", "commit_time", "operation", "position", "order"),
    "history": (
        "valid_from_gtid", "valid_from_time", "valid_from_position", "valid_from_order",
        "valid_to_gtid", "valid_to_time", "valid_to_position", "current",
    ),
}  # fmt: skip
"""extra columns that tables of a mode always have"""
_USELESS = {
    "append": {"deleted": 'which mode = "append" never sets: no row goes'},
    "changelog": {"deleted": 'which mode = "changelog" never sets: no row goes'},
    "history": {
        "deleted": 'which mode = "history" never sets: versions end',
        "gtid": 'which mode = "history" has as _valid_from_gtid',
        "commit_time": 'which mode = "history" has as _valid_from_time',
    },
}
"""extra columns without information in tables of a mode"""
MODES = ("mirror", "history", "changelog", "append")
NO_ROWS = "none"
SHAPING_KEYS = ("include", "exclude", "mask", "row_filter", "extra_columns", "mode", "key_prefix")
"""the keys that give a table other rows or columns than the source's"""
CHANNEL = "channel"
"""the extra column that identifies the channel of a row"""
OF_LAST_CHANGE = ("source_table", "gtid", "commit_time", "operation", "deleted")
"""extra columns that describe a row's last change"""
EXTRA_COLUMNS = (*OF_LAST_CHANGE, CHANNEL)
MASKS = ("sha256", "truncate:N", "constant:X", "null", "keep_last:N")
KEY_MASK = "sha256"
"""the mask that keeps different values different"""
_MASK = re.compile(r"sha256|null|constant:.*|(truncate|keep_last):\d{1,9}", re.DOTALL)


def is_mask(text: object) -> bool:
    """Return whether the text is one of MASKS, with a number or a text in the place of N or X."""
    return isinstance(text, str) and _MASK.fullmatch(text) is not None


def _columns(value: Any) -> str | None:
    wanted = "must be a list of columns' names, each once"
    if not isinstance(value, list | tuple):
        return f"{wanted}, not {value!r}"
    wrong = [entry for entry in value if not isinstance(entry, str) or not entry]
    if wrong:
        return f"{wanted}, but holds {wrong[0]!r}"
    names = [entry.lower() for entry in value]
    return f"{wanted}, but names {_twice(names)} twice" if _twice(names) else None


def _channels(value: Any) -> str | None:
    wanted = "must be a list of two channels' names at least, each once"
    if not isinstance(value, list | tuple):
        return f"{wanted}, not {value!r}"
    wrong = [entry for entry in value if not isinstance(entry, str) or not entry]
    if wrong:
        return f"{wanted}, but holds {wrong[0]!r}"
    if _twice(value):
        return f"{wanted}, but names {_twice(value)} twice"
    return f"{wanted}, but names {value[0]} alone" if len(value) == 1 else None


def _masks(value: Any) -> str | None:
    named = ", ".join(MASKS)
    wanted = f"must be a table of columns and masks ({named})"
    if isinstance(value, Mapping):
        value = tuple(value.items())
    elif not isinstance(value, tuple):  # an earlier reading made a tuple of a mapping
        return f"{wanted}, not {value!r}"
    for name, mask in value:
        if not is_mask(mask):
            return f"{wanted}, but {name} has {mask!r}{rules.nearest(mask, MASKS)}"
    names = [name.lower() for name, _ in value]
    return f"{wanted}, but names {_twice(names)} twice" if _twice(names) else None


def _extra(value: Any) -> str | None:
    wanted = f"must be a list of {', '.join(EXTRA_COLUMNS)}"
    if not isinstance(value, list | tuple):
        return f"{wanted}, not {value!r}"
    for entry in value:
        if entry not in EXTRA_COLUMNS:
            return f"{wanted}, but holds {entry!r}{rules.nearest(entry, EXTRA_COLUMNS)}"
    return f"{wanted}, but names {_twice(value)} twice" if _twice(value) else None


def _pattern(value: Any) -> str | None:
    wanted = 'must be "db.table", with % and _'
    parts = value.partition(".") if isinstance(value, str) else ("",)
    return None if all(parts) else f"{wanted}, not {value!r}"


def _target(value: Any) -> str | None:
    wanted = 'must be "db.table", or "" for the same name'
    named = isinstance(value, str) and (not value or all(value.partition(".")))
    return None if named else f"{wanted}, not {value!r}"


def _prefix(value: Any) -> str | None:
    wanted = 'must be the name of a column: letters, digits and _, or ""'
    named = isinstance(value, str) and re.fullmatch(r"([A-Za-z_]\w{0,63})?", value, re.ASCII)
    return None if named else f"{wanted}, not {value!r}"


def _twice(names: Any) -> str:
    names = list(names)
    return next((name for name in names if names.count(name) > 1), "")


def _key(default: Any, rule: rules.Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


@dataclass(frozen=True)
class TableRule:
    """One entry of ``[[tables]]``. ``TableRule()`` applies to tables that no rule matches: they are
    copied unchanged."""

    match: str = _key("", _pattern)
    to: str = _key("", _target)
    key_prefix: str = _key("", _prefix)
    """the column that identifies a shard, if many tables share one Delta table"""
    channels: tuple[str, ...] = _key((), _channels)
    """the channels that feed the table; the first maintains it; (): only this channel"""
    disjoint: bool = _key(False, rules.flag)
    """whether the user declares that no row passes the row filters of two channels"""
    mode: str = _key("mirror", rules.choice(*MODES))
    include: tuple[str, ...] = _key((), _columns)
    exclude: tuple[str, ...] = _key((), _columns)
    mask: tuple[tuple[str, str], ...] = _key((), _masks)
    """(column, mask) pairs"""
    mask_keys: bool = _key(False, rules.flag)
    """whether columns of a key may be masked"""
    row_filter: str = _key("", rules.ANY)
    extra_columns: tuple[str, ...] = _key((), _extra)
    copy: str = _key("rows", rules.choice("rows", NO_ROWS))
    """what a copy reads of the table; NO_ROWS: the table begins empty, and has no history"""
    on_ddl: str = _key("", rules.choice("", *rules.POLICIES))
    on_error: str = _key("", rules.choice("", "stop", "quarantine"))
    fed_by: str = ""
    """the channel of the rule's configuration, if CHANNEL identifies its rows; not a key"""

    @cached_property
    def reshaping(self) -> tuple[str, ...]:
        """Return the settings because of which the target's table has other rows or columns than
        the source's, as the configuration writes them."""
        names = (name for name in SHAPING_KEYS if name != "mode")
        given = tuple(name for name in names if getattr(self, name))
        return given if self.mode == "mirror" else (f'mode = "{self.mode}"', *given)

    @property
    def withheld(self) -> str:
        """Return the part of the log that must not be shown or kept: "values of columns", "rows" or
        ""."""
        if self.mask or self.include or self.exclude:
            return "values of columns"
        return "rows" if self.row_filter else ""

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Return the extra columns of the tables, including those of this rule's mode."""
        always = MODE_COLUMNS.get(self.mode, ())
        own = (*self.extra_columns, *(one for one in always if one not in self.extra_columns))
        own = tuple(one for one in own if one != CHANNEL)
        return ("shard", *own) if self.shards_by else own

    @property
    def shards_by(self) -> str:
        """Return the column that identifies a table's rows if the rule's tables share one Delta
        table with others; "" if each has its own."""
        return self.key_prefix or (f"_{CHANNEL}" if CHANNEL in self.extra_columns else "")

    @property
    def named(self) -> str:
        """Return ``to`` as a separate name for each table, also if many tables share one Delta
        table."""
        if not self.to or not self.shards_by:
            return self.to
        return f"{self.to}{SHARD}{'%' if self.key_prefix else self.fed_by}"


_KEYS: dict[str, Field[Any]] = {f.name: f for f in fields(TableRule) if f.metadata}
TABLE_KEYS = tuple(_KEYS)


def of_channel(rules: tuple[TableRule, ...], channel: str) -> tuple[TableRule, ...]:
    """Return the rules of a configuration, with ``channel`` set in those rules that use it for
    table names."""
    return tuple(
        replace(rule, fed_by=channel) if CHANNEL in rule.extra_columns else rule for rule in rules
    )


def read_tables(value: Any, faults: list[str]) -> tuple[TableRule, ...]:
    """Return the rules of a file's ``[[tables]]``, in order. Append their errors to ``faults``;
    rules are numbered from one."""
    if not isinstance(value, list | tuple) or not all(isinstance(e, Mapping) for e in value):
        faults.append("tables must be a list of tables: write each one's keys under [[tables]]")
        return ()
    table_rules = [
        _rule(f"tables[{number}]", entry, faults) for number, entry in enumerate(value, 1)
    ]
    for number, rule in enumerate(table_rules):
        earlier = next((o for o in table_rules[:number] if covers(o.match, rule.match)), None)
        if earlier is not None and earlier.match and rule.match:
            faults.append(
                f"tables[{number + 1}] is never asked: {earlier.match} before it fits all that"
                f" {rule.match} fits"
            )
    return tuple(table_rules)


def _rule(name: str, entry: Mapping[str, Any], faults: list[str]) -> TableRule:
    taken: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, [*_KEYS], 1, 0.0)
            faults.append(f"unknown key {name}.{key}; the nearest is {name}.{near[0]}")
        elif fault := _KEYS[key].metadata["rule"](value):
            faults.append(f"{name}.{key} {fault}")
        elif isinstance(value, Mapping):
            taken[key] = tuple(value.items())
        else:
            taken[key] = _frozen(value)
    if "match" not in entry:
        faults.append(f"{name} has no match: which tables it is about")
    rule = TableRule(**taken)
    faults += (f"{name}.{fault}" for fault in _contradicting(rule))
    return rule


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _contradicting(rule: TableRule) -> list[str]:
    """Return the keys of one rule that make each other useless."""
    faults = []
    if rule.include and rule.exclude:
        faults.append("exclude is never asked where include is given: what it lacks is left out")
    useless = _USELESS.get(rule.mode, {})
    faults += [f"extra_columns has {n}, {useless[n]}" for n in rule.extra_columns if n in useless]
    excluded, included = ({n.lower() for n in names} for names in (rule.exclude, rule.include))
    for column, _ in rule.mask:
        if column.lower() in excluded:
            faults.append(f"mask is never asked about {column}: exclude has it")
        elif included and column.lower() not in included:
            faults.append(f"mask is never asked about {column}: include lacks it")
    if rule.disjoint and not (rule.channels and rule.row_filter):
        faults.append("disjoint is never asked where channels or row_filter is not given")
    if rule.mask_keys and KEY_MASK not in {mask for _, mask in rule.mask}:
        faults.append(f"mask_keys is never asked where no mask is {KEY_MASK}")
    return faults
