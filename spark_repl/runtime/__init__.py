"""Runtime: Java, the Spark session, workers, threads, file stores.

In: settings. Out: a session, with Delta's jars for readers; tasks run on Spark partitions or in
this process (``workers``); work that is retried after temporary errors (``retry``); threads whose
end their owner notices (``companion``); files of a local disk or an object store (``store``).

The room knows nothing of binary logs, tables or positions, and never decides what a target holds.
"""
