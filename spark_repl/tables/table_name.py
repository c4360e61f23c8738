"""Names of tables as ``database.table``, so that no two tables share one.

A dot in a database's name is written as MySQL writes it in names of files, ``@002e``: the table
``c`` of the database ``a.b`` is ``a@002eb.c``, the table ``b.c`` of ``a`` is ``a.b.c``.
"""

from __future__ import annotations

_DOT, _AT = "@002e", "@0040"


def table_name(database: str, table: str) -> str:
    """Return the table's name in the form ``database.table``. If ``table`` is "", return the prefix
    of all names of the database."""
    if "." in database or "@00" in database:  # the latter, so that none is another's coded name
        database = database.replace("@", _AT).replace(".", _DOT)
    return f"{database}.{table}"


def parts_of(name: str) -> tuple[str, str]:
    """Return (the database's name, the table's)."""
    database, _, table = name.partition(".")
    return database.replace(_DOT, ".").replace(_AT, "@"), table


def database_of(name: str) -> str:
    return parts_of(name)[0]


def plain_name(name: str) -> str:
    """Return the name as MySQL writes it: both parts with a dot between them, regardless of their
    content."""
    return ".".join(parts_of(name))


def generated_prefix(name: str) -> str:
    """Return the prefix of the names that InnoDB generates for the table's foreign keys."""
    return f"{parts_of(name)[1]}_ibfk_"
