"""Cuts for readers: every table of a target at one committed state of the source.

``cut_reader`` opens a cut with Spark, ``joint_cut`` those of all channels, ``cut_wait`` waits for
one, ``cut_export`` writes a manifest for other engines. ``history_views`` reads tables of mode
``history``, and ``previous_folders`` lists the folders that a copy has replaced.
"""
