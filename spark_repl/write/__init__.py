"""Write: net changes -> data files -> one commit per table, data and position together.

In: what the workers staged, and the tables as they are. Out: a commit for each table that the
group changes, or RowError before the first of them. ``net_changes`` makes one change of all of a
key's (``keyless``: of a value's; ``missing_values``: of columns that images lack;
``key_changes``: in idempotent mode). ``direct`` finds rows by the key index and marks them, and
``commit`` joins them with a file's deletion vector; ``merge`` asks Delta's MERGE.
``table_commits`` says what became of a commit, and who else has committed. Compaction, checkpoints
and VACUUM go on beside (``upkeep``).

A file is removed only after the log was read and does not name it (``discard``).
"""
