"""SourceNames: what the source calls each table of the target, where databases are rewritten."""

from __future__ import annotations

from ..decode.renamed_tables import claim


class SourceNames:
    """By the tables' names in the target, of those that have been seen so far."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._logged

    def of(self, name: str) -> str:
        """What the source calls the table ``name``: that, where nothing else has been seen."""
        return self._logged.get(name, name)

    def see(self, name: str, logged: str) -> None:
        """The table ``name`` is the log's ``logged`` from here on, whatever it was before."""
        self._logged[name] = logged

    def claim(self, name: str, logged: str) -> None:
        """Notes that the table ``name`` is the log's ``logged``. Raises SchemaError where it is
        another one."""
        claim(self._logged, name, logged)

    def check(self, name: str, logged: str) -> None:
        """Raises SchemaError where the table ``name`` is another one than the log's ``logged``."""
        claim({name: self._logged.get(name, logged)}, name, logged)

    def forget(self, name: str) -> None:
        """There is no such table any more."""
        self._logged.pop(name, None)
