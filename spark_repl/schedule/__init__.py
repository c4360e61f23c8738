"""Scheduling: transactions -> waves, workers and groups, in the source's commit order.

In: index records, as NumPy arrays. Out, by module:

- ``planner``: where a group ends and which worker reads which transaction, by ``waves``.
- ``tasks``: what a worker has to read.
- ``branches``: which XA branches are prepared.
- ``until``: where the applier stops.
- ``skipped_records``: which transactions it skips.

Pure: no threads, no tables, and no files but the relay log's index.
"""
