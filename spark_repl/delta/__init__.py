"""Delta: what we ask of a Delta table's log, and the files that it names.

In: actions and snapshots. Out: commits through Delta's own transaction (``delta_log``) or public
APIs (``public_log``), live files, statistics, deletion vectors, and whether a commit that is
another's may stand (``foreign``; whose it is says ``write.table_commits``).

Knows nothing of what a position means, of groups or sources. Every call into Delta's internals is
in ``delta_log``.
"""
