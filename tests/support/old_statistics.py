"""Targets as version 0.1.0 left them, as to statistics."""

from __future__ import annotations

import json
from pathlib import Path

from spark_repl.delta.files.corrected_statistics import PROPERTY


def make_old(target: Path) -> None:
    """Writes the logs of all tables as that version did: texts of statistics with escapes, and no
    property that says which form they have."""
    for commit in target.glob("[!_]*/*/_delta_log/*.json"):
        actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        for action in actions:
            action.get("metaData", {}).get("configuration", {}).pop(PROPERTY, None)
            if "add" in action:
                action["add"]["stats"] = json.dumps(json.loads(action["add"]["stats"]))
        text = "\n".join(json.dumps(action, ensure_ascii=False) for action in actions)
        commit.write_text(text, "utf-8")
    for checksum in target.glob("[!_]*/*/_delta_log/*.crc"):
        checksum.unlink()
