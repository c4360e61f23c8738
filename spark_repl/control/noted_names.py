"""Noted names: what control tables say of whose a target's tables are; ``names`` writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..config import Config
from ..config.renaming import SHARD, is_shared, shard_of, whole_of
from ..ddl.folded_name import fold
from ..errors import TargetError
from .copies import KIND as COPY
from .copies import Copy
from .shown_tables import shown_tables
from .table_paths import announced_names, announced_paths, whole_name

if TYPE_CHECKING:
    from .control import Control

KIND = "channel_names"


def channels_beside(first: Control) -> list[str]:
    """The channels that have tables, or had, beside the one that had the target first, whose
    control table is ``first``; in the order in which they came."""
    names = dict.fromkeys(json.loads(row["detail"])["channel"] for row in first.rows(KIND))
    return [name for name in names if name != first_channel(first)]


def fed(control: Control) -> set[str]:
    """The tables that a channel's own control table knows: of the newest cut, and all that were
    made, or are to be, whose folder is there."""
    cut = control.last_cut()
    shown = {*cut.tables, *shown_tables(cut), *cut.waiting} if cut else set()
    paths = [pair for row in control.rows(COPY) for pair in Copy.of(row).paths.items()]
    copied = {name for name, _ in paths} | {whole_name(*pair) for pair in paths}
    return shown | copied | announced_names(control)


def fed_shards(control: Control, *, shared: bool) -> dict[str, str]:
    """The Delta tables in which the channel has shards, or had: name -> path; those that other
    channels feed, too (``shared``), or those that are its own."""
    return {
        whole_of(name): whole_of(path)
        for name, path in _fed_paths(control)
        if SHARD in path and is_shared(path) == shared
    }


def shards_had(control: Control, whole: str) -> set[str]:
    """What tells the shards apart that the channel has, or had, in the Delta table at ``whole``."""
    return {shard_of(name) for name, path in _fed_paths(control) if whole_of(path) == whole}


def _fed_paths(control: Control) -> list[tuple[str, str]]:
    """Names and paths of the newest cut, and of all that was made, or copied, or was to be."""
    cut = control.last_cut()
    pairs = [(name, at.path) for name, at in cut.tables.items()] if cut else []
    pairs += [pair for row in control.rows(COPY) for pair in Copy.of(row).paths.items()]
    return pairs + announced_paths(control)


def noted_names(shared: Control) -> dict[str, str]:
    """Folded name -> the channel that has noted it."""
    rows = [json.loads(row["detail"]) for row in shared.rows(KIND)]
    return {fold(name): row["channel"] for row in rows for name in row["names"]}


def first_is_gone(channel: str, path: str) -> TargetError:
    """A ``channel`` is beside another one, whose control table was at ``path``."""
    return TargetError(
        f'the channel "{channel}" came beside another one, which is gone', file=path,
        hint="put that control table back: it says which tables are whose",
    )  # fmt: skip


def first_channel(first: Control) -> str:
    owner = first.owner()
    return (owner and owner[1].channel) or Config.channel
