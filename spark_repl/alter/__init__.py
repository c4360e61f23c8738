"""Plan ALTER TABLE on a table definition.

In: a definition and the actions of an ALTER TABLE (sql/actions). Out: the definition after the
statement, and for each of its columns the source of its values (``column_source``): kept, constant,
computed or unknown. ``schema_history`` keeps definitions for logs that have no full metadata. Pure:
this room reads and writes no row. write/ carries out what it plans.
"""
