"""Copy: tables of a live source into Delta tables, in chunks, while the log goes on. No lock is
held while rows are read.

In: a source and an empty target, or the names of tables to copy anew. Out: tables whose rows are of
known GTID sets, and a copy row in the control table that says when the applier has caught up.
``copy_plan`` decides, ``first_copy`` and ``recopy`` carry it out, ``chunk`` reads and writes one
piece on a worker.
"""
