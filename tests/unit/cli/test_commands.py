"""The table of commands: each leads to a function of the room."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from spark_repl.cli.main import _RUN


@pytest.mark.parametrize("words", _RUN)
def test_each_command_has_its_function(words: str) -> None:
    module, _, name = _RUN[words].partition(".")
    function = getattr(import_module(f"spark_repl.cli.{module}"), name)
    assert [*inspect.signature(function).parameters] == ["options"]
