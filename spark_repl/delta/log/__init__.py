"""The log of a Delta table, by the protocol: commits, checkpoints, checksums, clean-up, VACUUM.

``table_log`` is the entry: snapshots, and one commit at a time. ``log_state`` and ``add_actions``
hold what a log describes; ``checkpoint_writer`` and ``log_cleanup`` keep it short.
"""
