"""Tables: what the applier knows of a table: its columns, keys and partitions, and what the target
has of them.

In: TABLE_MAP events, statements, and rules. Out: one of two kinds of definitions, which no type
checker takes for each other. Values only: this room reads no log and no target.

- ``SourceTable`` has the columns and the key of the log's rows. Code that reads a log, carries out
  a statement, or queries the source takes it.
- ``TargetTable`` has those of the target's rows, and their projection: withheld and masked columns,
  a row filter, a mode, columns that only the target has. Writers take it; the target records it as
  JSON. ``source`` is the table of which it is a projection. Its properties answer questions about
  masks, modes and shards, so that other rooms need not know the fields.
"""
