"""Keeping of XA branches, tried again: what can't be kept is its XA PREPARE's failure, whoever has
transactions beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import GivenUpError
from ...position import RelayPosition

if TYPE_CHECKING:
    from ...runtime.retry import Retries
    from ...schedule.branches import Branch, XaGroup
    from ...schedule.group import Group

OnKeep = Callable[["Branch"], None]


def keeping(work: Callable[[OnKeep], XaGroup], group: Group, retries: Retries) -> XaGroup:
    """What ``work`` finds that the group does to branches; it tells its argument of each one before
    its bytes are kept. A failure counts for the worker that has the XA PREPARE. Raises what is not
    temporary as it is, and GivenUpError at the XA PREPARE when all attempts were in vain."""
    told: list[Branch] = []

    def attempt() -> XaGroup:
        told.clear()
        return work(told.append)

    def failed() -> list[int]:
        position = told[-1].position if told else -1
        return [int(one) for one in group.worker[group.records["position"] == position]]

    try:
        return retries.run(attempt, slot=group.slot, failed=failed)
    except GivenUpError as error:
        if told:
            error.at(position=RelayPosition.unpack(told[-1].position))
        raise
