"""GroupReader: of what several workers failed with, which error stops the applier."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import permutations
from typing import Any, cast

import pytest

from spark_repl.apply.group.group_reader import PendingRead
from spark_repl.decode.stage_task import Staged
from spark_repl.errors import DecodeError, Stopped, TargetError

_EARLY = DecodeError("damage", position="1:400")
_LATE = DecodeError("damage", position="2:4")
_NOWHERE = DecodeError("damage")
_FULL = TargetError("no space is left")
_STOPPED = Stopped()


@pytest.mark.parametrize(
    ("failed", "raised"),
    [
        ((_LATE, _EARLY), _EARLY),
        ((_LATE, _NOWHERE), _NOWHERE),
        ((_EARLY, _FULL, _LATE), _FULL),
        ((_STOPPED, _LATE), _LATE),
        ((_STOPPED,), _STOPPED),
    ],
)
def test_what_is_about_no_place_first_then_the_first_place(
    failed: tuple[Exception, ...], raised: Exception
) -> None:
    for order in permutations(failed):
        parts = list[Future[Staged]]()
        for error in order:
            parts.append(Future())
            parts[-1].set_exception(error)
        with pytest.raises(type(raised)) as caught:
            PendingRead(cast(Any, None), parts).wait()
        assert caught.value is raised
