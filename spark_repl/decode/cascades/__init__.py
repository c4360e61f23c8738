"""Emulated cascades: what the source's storage engine changed by foreign keys and did not log.

``cascade_plan`` resolves which tables a group's changes may reach, by which foreign keys.
``logged_changes`` reads the logged changes of those tables, in the order of the log, with whole
images. ``cascade_simulation`` applies the changes one after the other and carries each of them on
along the keys, over the rows that ``row_chains`` indexes.

In: a plan, tasks and rows of the target. Out: changes of rows, as arrays; ``write.cascades`` makes
Arrow streams of them. ``decode.cascade_detection`` decides whether a group needs any of this.
"""
