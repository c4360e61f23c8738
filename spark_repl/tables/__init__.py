"""Tables: what the applier knows of a table: its columns, keys, partitions, and what rules add.

In: TABLE_MAP events, statements and rules. Out: a ``TableDefinition``, which the other rooms pass
to each other; the target records its JSON form.

Values only: this room reads no log and no target.
"""
