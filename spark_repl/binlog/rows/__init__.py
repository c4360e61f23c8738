"""Rows: whole transactions -> row images per table -> Arrow batches of the rows asked for.

``walk`` goes over the images once and notes where each lies; values are decoded column by column
only when somebody asks. ``partial_rows`` are images that lack columns or hold JSON diffs, ``twins``
values that differ in the log and are one in the target.
"""
