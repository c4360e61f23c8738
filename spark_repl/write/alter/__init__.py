"""ALTER TABLE on a Delta table: new metadata, rewritten rows, dropped partitions.

``table_changes`` is the entry: one statement becomes one Delta commit with its position.
"""
