"""Delta: a Delta table's log, read and written by the protocol, and the files that it names.

In: actions and snapshots. Out: commits (``table_log``, one file each: ``commit_file``), the state
that a log describes (``log_state``, from checkpoints and commits), live files (``log_replay``),
statistics, deletion vectors, checkpoints (``checkpoint_writer``), VACUUM, and whether another
writer's commit may stay (``foreign``; who wrote it is decided by ``write.table_commits``).

Knows nothing of what a position means, of groups or sources. Calls nothing of Delta's in the JVM.
"""
