"""Runtime: the processes that we run in and beside: Java, the Spark session, workers, threads.

In: settings. Out: a session, with Delta's jars for readers, an object store's address checked,
tasks run on Spark partitions or in this process (``workers``), work tried again while its error is
temporary (``retry``), threads whose end somebody sees (``companion``).

Knows nothing of binary logs, tables or positions, and never reads or writes a target.
"""
