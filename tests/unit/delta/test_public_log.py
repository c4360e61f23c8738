"""What Delta's public API says of a commit in between is told apart: ours, or somebody else's."""

from __future__ import annotations

import inspect

import pytest
from delta.exceptions import base

from spark_repl.delta.public_log import told_apart
from spark_repl.errors import ConcurrentChangeError, FencedError

CLASSES = [
    found
    for found in vars(base).values()
    if inspect.isclass(found) and found.__module__ == base.__name__
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_conflict_is_planned_around_or_fences(kind: type[Exception]) -> None:
    ours = kind is base.ConcurrentTransactionException
    with (
        pytest.raises(FencedError if ours else ConcurrentChangeError) as raised,
        told_apart("folder", "t.a"),
    ):
        raise kind("a commit came first")
    assert (raised.value.table, raised.value.file) == ("t.a", "folder")


def test_what_is_no_conflict_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="another"), told_apart("folder"):
        raise ValueError("another")
