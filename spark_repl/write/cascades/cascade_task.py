"""What a worker is told of a group whose changes foreign keys carry on, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...decode.cascade_plan import Plan
    from ...decode.part import Part
    from ...decode.staged import Staged, StageTask


@dataclass(frozen=True)
class CascadeTask:
    """``stage``: the group's transactions, or several groups', one behind the other;
    ``referencing``: by table, rows that were there before them; ``asked``: by number of the plan's
    keys, the values that were looked for, in the types of the referenced columns; ``folder``: for
    files."""

    plan: Plan
    stage: tuple[StageTask, ...]
    folder: str
    referencing: tuple[tuple[str, Part], ...] = ()
    asked: tuple[tuple[int, Part], ...] = ()


@dataclass(frozen=True)
class Cascaded:
    """``wanted``: values that have to be looked for; without any ``staged`` is what the group does
    to the plan's children, ``changes`` of which are not in the log."""

    wanted: tuple[tuple[int, Part], ...]
    staged: Staged | None = None
    changes: int = 0
