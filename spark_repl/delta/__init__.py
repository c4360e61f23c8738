"""Delta: a Delta table's log, read and written by the protocol, and the files that it names.

In: actions and snapshots. Out: commits (``table_log``, one file each: ``commit_file``), the state
that a log describes (``log_state``, from checkpoints and commits), live files (``add_actions``),
statistics, deletion vectors, checkpoints (``checkpoint_writer``), VACUUM, and whether a commit of
another writer may stay (``foreign_commits``; ``write.tables.table_commits`` decides who wrote it).

This room does not interpret positions, and knows no groups or sources. It calls nothing of Delta's
in the JVM.
"""
