"""Upkeep of tables while groups are applied: compaction, Delta's checkpoints, log clean-up, VACUUM,
retention.

``scheduler`` decides when a table gets upkeep, ``table_maintenance`` does it for one table.
"""
