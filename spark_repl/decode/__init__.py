"""Decoding: a worker's part of a group, from spans of log files to chains of changes in Arrow.

In: a StageTask, which has numbers and paths only. Out: Staged, with one Arrow stream per table and
shard. A stream has one chain of changes per key, with the position of each change. ``folding``
turns all workers' chains of a key into one net change, for ``write.rows``. ``target_rows`` gives
rows the target's columns, and masks them (``rules.masking``) before anything is written. If the
source does not log the cascades of foreign keys, ``cascade_detection`` detects the changes that
cause them, and ``cascades`` simulates the cascades for ``write.cascades``.
``read_changes`` returns all row changes instead.

Runs on executors without a session. Readers of the target see nothing that it writes.
"""
