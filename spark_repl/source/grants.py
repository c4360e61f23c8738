"""GRANT statements for hints, complete so that they can be pasted."""

from __future__ import annotations

import re
from collections.abc import Iterable

EVERYTHING = "*.*"
_NEEDED = re.compile(r"need \(at least one of\) the (.+?) privilege")


def account_of(current_user: str) -> str:
    """Return the result of CURRENT_USER() in the form for statements: 'name'@'host'."""
    name, _, host = current_user.rpartition("@")
    return "@".join(f"'{part}'" for part in map(_escaped, (name, host)))


def grant(privilege: str, places: Iterable[str], account: str) -> str:
    """Return the statements that grant a privilege on each of ``places``."""
    return "; ".join(f"GRANT {privilege} ON {place} TO {account}" for place in places)


def needed(refusal: str, otherwise: str) -> str:
    """Return the privilege that a refusal (1227) names; if it names several, the last one that is
    not SUPER; if it names none, ``otherwise``."""
    match = _NEEDED.search(refusal)
    named = [privilege.strip() for privilege in match[1].split(",")] if match else []
    return next((privilege for privilege in reversed(named) if privilege != "SUPER"), otherwise)


def _escaped(part: str) -> str:
    return part.replace("\\", "\\\\").replace("'", "''")
