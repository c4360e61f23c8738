"""Rows of a group: net changes become data files and marked rows, one commit per table.

``group_writer`` is the entry, on the driver; ``direct_writer`` and ``scd2_history`` are the
tasks of the workers.
"""
