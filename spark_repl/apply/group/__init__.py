"""A group's way: planned, read by workers, committed in order, and published as a cut.

``coordinator`` plans groups, ``pipeline`` leads each through reading (``staging``, ``stager``) and
writing (``apply_group``, ``group_commit``); ``low_water_mark`` is where
all tables are, ``cut_publisher`` publishes cuts.
"""
