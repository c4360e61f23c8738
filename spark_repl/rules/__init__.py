"""Rules: what the user's configuration says about tables, rows and columns.

In: ``[filters]`` and ``[[tables]]``. Out: whether a table is replicated (``replication_filters``,
MySQL's replicate-* rules), its name in the target (``database_renames``, ``table_routes``), its
rows (``row_filters``), its columns (``projection``, ``masking``, ``metadata_columns``) and its mode
(``table_mode``).

Pure: this room looks at no target.
"""
