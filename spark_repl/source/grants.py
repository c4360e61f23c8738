"""GRANT statements for hints, complete so that they can be pasted."""

from __future__ import annotations

import re
from collections.abc import Iterable

EVERYTHING = "*.*"
_NEEDED = re.compile(r"need \(at least one of\) the (.+?) privilege")


def account_of(current_user: str) -> str:
    """Return what CURRENT_USER() returns as a statement has to have it: 'name'@'host'."""
    name, _, host = current_user.rpartition("@")
    return "@".join(f"'{part}'" for part in map(_escaped, (name, host)))


def grant(privilege: str, places: Iterable[str], account: str) -> str:
    """Return the statements that grant a privilege on each of ``places``."""
    return "; ".join(f"GRANT {privilege} ON {place} TO {account}" for place in places)


def needed(refusal: str, otherwise: str) -> str:
    """Return the privilege that a refusal (1227) names, of several the last one, which is not
    SUPER; ``otherwise`` if it names none."""
    match = _NEEDED.search(refusal)
    named = [privilege.strip() for privilege in match[1].split(",")] if match else []
    return next((privilege for privilege in reversed(named) if privilege != "SUPER"), otherwise)


def _escaped(part: str) -> str:
    return part.replace("\\", "\\\\").replace("'", "''")
