"""Copy: tables of a live source into Delta tables, in chunks, while the log continues. No lock is
held while rows are read.

In: a source and an empty target, or the names of tables to copy again. Out: tables whose rows have
recorded GTID sets, and a copy row in the control table that records when the applier has caught up.
``copy_plan`` plans a copy, ``first_copy`` and ``recopy`` carry it out, ``copy_chunk`` reads and
writes one piece on a worker.
"""
