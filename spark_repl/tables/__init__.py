"""Tables: definitions of tables: columns, keys, partitions, and their projection in the target.

In: TABLE_MAP events, statements, and rules. Out: definitions of two types. A type checker finds
where one is used for the other. Values only: this room reads no log and no target.

- ``SourceTable`` has the columns and the key of the log's rows. Code that reads a log, carries out
  a statement, or queries the source uses it.
- ``TargetTable`` has the columns and the key of the target's rows, and their projection: withheld
  and masked columns, a row filter, a mode, columns that only the target has. Writers use it, and
  the target records it as JSON. ``source`` is the table of which it is a projection. Its properties
  answer questions about masks, modes and shards, so that other rooms need not know the fields.
"""
