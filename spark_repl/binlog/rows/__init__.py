"""Rows: whole transactions -> row images per table -> Arrow batches of the requested rows.

``walk`` reads the images once and records where each one begins. Values are decoded column by
column, and only for the requested rows. ``partial_rows`` are images that lack columns or hold JSON
diffs. ``equal_values`` finds values that differ in the log and are equal in the target.
"""
