"""system_time_zone: what SYSTEM, the time zone of most sessions, means on the source.

The configuration has it, or a copy has asked a live source. That answer counts only for UTC: other
zones report an abbreviation (CET), which is no zone's name. The control table records it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..table.control import Control

KIND, KEY = "time_zone", "system_time_zone"
_UTC = ("UTC", "GMT")


def record_time_zone(control: Control, value: str) -> None:
    """Write a live source's system_time_zone if it has changed; the caller owns the target."""
    zone = "UTC" if value in _UTC else ""
    if zone != recorded_time_zone(control):
        control.write(KIND, detail=json.dumps({KEY: zone}))


def recorded_time_zone(control: Control) -> str:
    """Return the zone that was written last; "" if none is known."""
    rows = control.rows(KIND)
    return str(json.loads(rows[-1]["detail"])[KEY]) if rows else ""
