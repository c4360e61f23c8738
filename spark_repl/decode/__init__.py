"""Decode: a worker's part of a group: spans of a log file -> chains of changes in Arrow.

In: a StageTask, numbers and paths alone. Out: Staged: one Arrow stream per table and shard, one
chain of changes per key of this worker's, with the position of each. Of all workers' chains
``folding`` makes one net change a key; ``write.net_changes`` asks for it. ``target_rows`` gives
rows the target's columns, and masks them (``rules.masking``) before anything is written. If the
source does not log the cascades of foreign keys, ``seen_cascades`` detects the changes that cause
them, and ``cascade_kernel`` simulates the cascades for ``write.emulated_cascades``.
``read_changes`` returns all row changes instead.

Runs on executors without a session; nothing of what it writes is visible to a reader.
"""
