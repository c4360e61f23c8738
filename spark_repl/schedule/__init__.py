"""Scheduling: transactions -> waves, workers and groups, in the source's commit order.

In: index records, as NumPy arrays. Out: where a group ends and which worker reads which transaction
(``planner``, by the rules of ``waves``), what a worker has to read (``tasks``), which XA branches
are prepared (``branches``), where the applier stops (``until``), and which transactions it skips
(``skipped_records``).

Pure: no threads, no tables, and no files but the relay log's index.
"""
