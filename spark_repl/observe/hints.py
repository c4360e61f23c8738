"""Hints: the next step after an error or a problem, as commands that users can paste."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"--config F\b|--table DB\.T(?:ABLE)?\b|--gtid GTID\b")
_OF_A_TARGET = re.compile(
    r"(spark-repl (?:skip|status|wait|(?:cut|quarantine|xa) \w+)) --config F\b"
)


def pasteable(hint: str, options: Mapping[str, object], **about: str | None) -> str:
    """Return the hint with its placeholders replaced: each ``--config F`` by the command's
    configuration file, ``--table DB.T`` and ``--gtid GTID`` by ``table`` and ``gtid`` of the error.

    Without a configuration, commands that need only a target get the command's target. A
    placeholder stays if there is no value for it, or more than one.
    """
    config, target = options.get("config"), options.get("target")
    files = [config] if config and isinstance(config, str) else config
    file = files[0] if isinstance(files, list) and len(files) == 1 else None
    if not files and isinstance(target, str):
        hint = _OF_A_TARGET.sub(lambda match: f"{match[1]} --target {shlex.quote(target)}", hint)
    values = {"--config": file, "--table": about.get("table"), "--gtid": about.get("gtid")}

    def named(match: re.Match[str]) -> str:
        option = match[0].partition(" ")[0]
        value = values[option]
        return f"{option} {shlex.quote(value)}" if value and ", " not in value else match[0]

    return _PLACEHOLDER.sub(named, hint)
