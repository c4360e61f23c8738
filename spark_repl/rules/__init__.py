"""Rules: what the user's configuration says about tables, rows and columns.

In: ``[filters]`` and ``[[tables]]``. Out: whether a table is replicated (``replication_filters``,
MySQL's replicate-* rules), its name in the target (``rewrites``, ``table_routes``), its rows
(``row_filters``; of a table that several channels feed: ``channel_rows``), its columns
(``column_rules``, ``masking``, ``metadata_columns``) and its mode (``table_mode``).

Pure: this room looks at no target.
"""
