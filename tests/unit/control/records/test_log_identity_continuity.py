"""Where a log goes on by the source's file and position, and where its GTIDs say otherwise."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from spark_repl.control.records.log_identity import continues_at
from spark_repl.control.table.cut import Cut
from spark_repl.gtid import GtidSet
from spark_repl.relay.source_places import SourcePlace

UUID = "11111111-2222-3333-4444-555555555555"
PLACE, AT = SourcePlace("bin.000002", 500, 1, 1), 77


@pytest.mark.parametrize(
    ("previous", "before", "behind", "goes_on"),
    [
        ("1-3", "4-5", "6-9", True),
        ("1-3", "4-6", "7-9", False),  # before the place is one that the target has not
        ("1-6", "", "7-9", False),
        ("1-3", "4-5", "5-9", False),  # behind it one that it has: it would come twice
        ("", "", "", True),  # anonymous ones
    ],
)
def test_gtids_on_both_sides_of_the_place_agree(
    previous: str, before: str, behind: str, goes_on: bool
) -> None:
    def of(numbers: str) -> GtidSet:
        return GtidSet.parse(f"{UUID}:{numbers}" if numbers else "")

    log, index = MagicMock(), MagicMock()
    log.previous_gtids.return_value = of(previous)
    index.gtids.side_effect = lambda first, end=None: of(before if end is not None else behind)
    cut = Cut(1, str(of("1-5")), "log", PLACE.to_json(), {})
    assert continues_at({PLACE: AT}.get, log, index, cut) == (AT if goes_on else None)
    assert continues_at({}.get, log, index, cut) is None
