"""The way of one group: it is planned, read by workers, committed in order, and shown by a cut.

``coordinator`` plans groups. ``pipeline`` leads each group from the reader (``group_reader``,
``stager``) to the committer (``group_committer``), in the order of ``commit_order``.
``low_water_mark`` is the place up to which every table has everything; ``gaps`` are transactions
after it that some tables have. ``cut_publisher`` publishes cuts, ``failure_report`` completes the
error of a group that failed.
"""
