"""A configuration whose source can't be reached."""

from __future__ import annotations

from pathlib import Path

from spark_repl.config import Config


def no_source(folder: Path) -> Config:
    """It asks for no page, and gives up at once."""
    return Config.from_mapping({
        "source": {"port": 1, "connect_retry_count": 1},
        "relay": {"path": str(folder / "relay")},
        "target": {"path": str(folder / "lake")},
        "observe": {"listen": ""},
    })  # fmt: skip
