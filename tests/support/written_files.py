"""Files that are written, by the patterns of docs/files.md, which has to know each."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
TARGET, STATE, RELAY = "Below `target.path`", "Below `target.state_path`", "Below `relay.path`"
DATA, KEY_INDEX = "T/[column=value/]part-*.parquet", "keys/S/*/*.npy"
_TABLE, _PARTITION = "(?!_)[^/]+/[^/]+", "[column=value/]"
_KNOWN = {
    "*": "[^/]*", "T": _TABLE, "S": f"{_TABLE}(?:/shared)?(?:/[0-9]+)?", "[0-9]": "[0-9]",
    _PARTITION: "(?:[^/]+=[^/]+/)*",
}  # fmt: skip
_PARTS = re.compile(rf"(\*|\bT\b|\bS\b|\[0-9\]|{re.escape(_PARTITION)})")
_OF_A_CHANNEL = re.compile(r"_repl/channels/[^/]+/")
_THE_TARGETS_OWN = re.compile(r"_repl/((control|xa|quarantine|staging)/|(lease|move)\.json)")


def patterns(section: str) -> dict[str, re.Pattern[str]]:
    """The patterns of a table of the page, by what stands there."""
    text = PAGE.read_text("utf-8").split(f"\n## {section}")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    found = [name for cell in cells for name in re.findall("`([^`]+)`", cell) if name != "T/"]
    return {name: re.compile(_regex(name)) for name in found}


def _regex(pattern: str) -> str:
    return "".join(_KNOWN.get(part, re.escape(part)) for part in _PARTS.split(pattern))


def below_target(target: Path) -> Counter[str]:
    """How many files there are of each pattern below a target that holds its working state, of all
    its channels. Fails at a file that the page does not know."""
    tables, state, found = patterns(TARGET), patterns(STATE), Counter[str]()
    for name in _names(target):
        own = _OF_A_CHANNEL.sub("_repl/", name)
        if own.startswith("_repl/") and not _THE_TARGETS_OWN.match(own):
            found[_pattern(own.removeprefix("_repl/"), state)] += 1
        else:
            found[_pattern(own, tables)] += 1
    return found


def below_relay(folder: Path) -> Counter[str]:
    """The same of a receiver's folder."""
    known = patterns(RELAY)
    return Counter(_pattern(name, known) for name in _names(folder))


def _names(folder: Path) -> list[str]:
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    return [path.relative_to(folder).as_posix() for path in paths]


def _pattern(name: str, known: dict[str, re.Pattern[str]]) -> str:
    """The longest that fits says most."""
    fits = [pattern for pattern, regex in known.items() if regex.fullmatch(name)]
    assert fits, f"docs/files.md does not know {name}"
    return max(fits, key=len)
