"""Schedule: transactions -> waves, workers and groups, in the source's commit order.

In: index records, as NumPy arrays. Out: who has which transaction, where a group ends, which XA
branches are prepared (``branches``), where the applier is told to stop (``stops``).

Pure: no threads, no files but the relay log's index, no tables.
"""
