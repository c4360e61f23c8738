"""Write: net changes of a group -> data files -> one commit per table, with data and position
together.

In: what the workers staged, and the state of the tables. Out: a commit for each table that the
group changes, or RowError before the first commit. ``files`` has the files of a Delta table,
``rows`` writes the rows of a group, ``tables`` has the state of the target's tables and their
commits, ``alter`` carries out ALTER TABLE, ``cascades`` repeats what the source's foreign keys did,
``shared`` has Delta tables of several source tables or channels, and ``upkeep`` runs compaction,
checkpoints and VACUUM while groups are applied.

A file is removed only after the log was read and does not name it (``files.discard``).
"""
