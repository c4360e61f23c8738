"""Schedule: transactions -> waves, workers and groups, in the source's commit order.

In: index records, as NumPy arrays. Out: where a group ends and which worker has which transaction
(``planner``, by the rules of ``waves``), what that worker has to read (``tasks``), which XA
branches are prepared (``branches``), where the applier is told to stop (``stops``).

Pure: no threads, no files but the relay log's index, no tables.
"""
