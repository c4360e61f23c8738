"""Write: net changes -> data files -> one commit per table, data and position together.

In: what the workers staged, and the tables as they are. Out: a commit for each table that the
group changes, or RowFault before the first of them. ``direct`` finds rows by the key index and
marks them; ``merge`` asks Delta's MERGE. Compaction and checkpoints go on beside (``upkeep``).

A file is removed only after the log was read and does not name it (``discard``).
"""
