"""What a commit that Delta refuses is called: its table by name, the folder as a file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_repl.delta.delta_log import translate
from spark_repl.errors import SparkReplError


def refused(name: str, message: str) -> SparkReplError:
    """The error for a Java exception of this class."""
    java = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: name), getMessage=lambda: message
    )
    error = translate(cast("Any", SimpleNamespace(java_exception=java)), "/lake/t/a")
    assert isinstance(error, SparkReplError)
    return error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("DeltaIllegalStateException", "the log is damaged"),
        ("ConcurrentTransactionException", "another writer"),
        ("ConcurrentAppendException", "another writer"),
        ("IllegalStateException", "MAX_COMMIT_RETRIES"),
        ("DeltaUnsupportedTableFeatureException", "a feature"),
    ],
)
def test_a_folder_is_not_named_as_the_table(name: str, message: str) -> None:
    error = refused(name, message)
    assert (error.table, error.file) == (None, "/lake/t/a")
