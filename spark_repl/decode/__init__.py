"""Decode: a worker's part of a group: spans of a log file -> net changes in Arrow.

In: a StageTask, numbers and paths alone. Out: Staged: one Arrow stream per table and shard, one
change per key, with the position of each. ``read_changes`` gives all row changes instead.

Runs on executors without a session; nothing of what it writes is visible to a reader.
"""
