"""Another channel's step at the moment in which one is about to append to its control table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltalake import write_deltalake


class Before:
    """Appends; ``then`` comes just before the next append."""

    def __init__(self) -> None:
        self.then: Callable[[], None] | None = None

    def __call__(self, *given: Any, **more: Any) -> None:
        then, self.then = self.then, None
        if then:
            then()
        write_deltalake(*given, **more)
