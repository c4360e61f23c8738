"""Files of a Delta table: data files, change files, key indexes, and the actions that name them.

``write_task`` describes what a worker gets and returns; ``commit`` turns the results of a group
into one commit per table; ``discard`` is the only place that removes files of commits that failed.
"""
