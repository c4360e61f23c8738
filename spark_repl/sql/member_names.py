"""Names of members of ENUM and SET in a default: which member one means, as far as the collation
has no say in it."""

from __future__ import annotations

import unicodedata


def member_of(name: str, members: tuple[str, ...]) -> str | None:
    """The member that a name means which the server has taken for one; None: not known."""
    if name in members:
        return name
    same = [one for one in members if one.lower() == name.lower()]
    plain = len(same) == 1 and all(one.isascii() for one in (name, *members))
    return same[0] if plain else None


def has_twin_before(name: str, members: tuple[str, ...]) -> bool:
    """Whether a member before this one may be the same to its collation, and be meant then: a
    server that isn't strict takes such lists."""
    bare = _bare(name)
    return any(_bare(one) == bare for one in members[: members.index(name)])


def _bare(text: str) -> str:
    """Without case and marks."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in parts if not unicodedata.combining(one))
