"""Apply: the way of a batch from Spark's stream to the published cut.

``start/replica`` opens a target, at the place that ``start/resume`` finds, and runs the stream
(``stream/``). ``group/`` cuts batches into groups, has them read and commits them.
``statements/`` carries DDL out between groups, ``group/cascading`` adds what foreign keys did and
the log lacks, and ``log/quarantine_changes`` keeps the changes of a table that can't be applied.

The driver's room: it decides, row data does not pass through it.
"""
