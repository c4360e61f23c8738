"""Names of tables as ``database.table``, so that no two tables share one.

A dot in a database's name is written as MySQL writes it in names of files, ``@002e``: the table
``c`` of the database ``a.b`` is ``a@002eb.c``, the table ``b.c`` of ``a`` is ``a.b.c``.
"""

from __future__ import annotations

_DOT, _AT = "@002e", "@0040"


def table_name(database: str, table: str) -> str:
    """``table`` "" gives what the names of the database's tables begin with."""
    if "." in database or "@00" in database:  # the latter, so that none is another's coded name
        database = database.replace("@", _AT).replace(".", _DOT)
    return f"{database}.{table}"


def parts_of(name: str) -> tuple[str, str]:
    """(the database's name, the table's)."""
    database, _, table = name.partition(".")
    return database.replace(_DOT, ".").replace(_AT, "@"), table


def database_of(name: str) -> str:
    return parts_of(name)[0]


def plain_name(name: str) -> str:
    """The name in MySQL's own rules: the two parts with a dot between, whatever they hold."""
    return ".".join(parts_of(name))


def generated_prefix(name: str) -> str:
    """What the names of foreign keys begin with that InnoDB makes of the table's."""
    return f"{parts_of(name)[1]}_ibfk_"
