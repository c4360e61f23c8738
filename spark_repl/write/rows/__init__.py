"""Rows: net changes of a group -> data files and marked rows of one table.

``group_writer`` writes a group; ``direct`` is the worker's task, ``direct_writer`` the driver's
side. ``scd2_history`` and ``soft_deletes`` write tables of other modes.
"""
