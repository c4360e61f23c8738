"""Setting faults: what several tables have against a configuration, said at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SettingError


def raise_all(errors: Sequence[SettingError]) -> None:
    """Raises those of several tables as one SettingError; nothing where there are none."""
    errors = [*{one.table: one for one in errors}.values()]  # of one that is made anew once
    if len(errors) < 2:
        for error in errors:
            raise error
        return
    listed = "".join(f"\n  - {one.table}: {one.message}" for one in errors)
    hints = dict.fromkeys(one.hint for one in errors if one.hint)
    raise SettingError(
        f"{len(errors)} tables are not as [[tables]] would have them now{listed}",
        table=", ".join(str(one.table) for one in errors),
        hint="; ".join(hints),
    )
