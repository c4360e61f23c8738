"""Upkeep: compaction, checkpoints, VACUUM and log clean-up, on a thread beside the stream.

``scheduler`` decides which table is due, ``table_maintenance`` does the work for one table.
"""
