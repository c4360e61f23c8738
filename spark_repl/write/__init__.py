"""Write: chains of changes -> data files -> one commit per table, data and position together.

In: what the workers staged, and the tables as they are. Out: a commit for each table that the group
changes, or RowError before the first of them. ``net_changes`` makes one change of all of a key's
(``keyless``: of a value's; ``missing_values``: of columns that images lack; ``key_changes``: in
idempotent mode). ``direct`` finds rows by ``key_lookup`` (key -> file and row, by ``key_index`` and
``key_segments``) and marks them; ``commit`` puts the marks in, joined with a file's own by
``delta.deletion_vector``. ``altering`` carries ALTER TABLE out: by metadata alone, or by new files;
``emulated_cascades`` does what the source's foreign keys did; ``versions`` and ``ended_versions``
are mode history. ``table_commits`` says what became of a commit, and who else has committed.
Compaction, checkpoints, VACUUM go on beside (``upkeep``; ``file_retention``: a table's files stay
as long as the longest promise).

A file is removed only after the log was read and does not name it (``discard``).
"""
