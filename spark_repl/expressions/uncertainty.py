"""What is raised where an expression's value is not known for sure."""

from __future__ import annotations

from ..errors import Unconvertible


def uncertain(reason: str) -> Unconvertible:
    """Raised for rows whose outcome is not known, as the source would have refused them, or what it
    makes of them depends on more than the log says."""
    return Unconvertible(reason, hint="copy the table anew")
