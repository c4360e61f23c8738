"""Apply: the way of a batch from Spark's stream to the published cut.

``start/replica`` opens a target, at the place that ``start/resume`` finds, and runs the stream
(``stream/``). ``group/`` cuts batches into groups, has them read and commits them. ``statements/``
applies DDL between groups. ``group/cascading`` adds the changes that foreign keys made and the log
lacks. ``log/quarantine_changes`` keeps the changes of a table that can't be applied.

This code runs in the driver: it decides, and no row data passes through it.
"""
