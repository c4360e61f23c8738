"""Control: what a target knows of itself beside its rows: owner, histories, copies, XA, cuts.

In and out: rows of the control table and files below ``_repl``, each kind with a class of its own.
``cut`` and ``cut_reader`` are the readers' side: all tables at one GTID set of the source.
apply/group/cut_publisher publishes cuts, ``retention`` says which are promised still, ``control``
prunes
the others. ``xa_store`` keeps prepared branches, ``quarantine_store`` what could not be applied,
``names`` whose a table is where several channels have one target.

A row is written once and by the owner alone; whoever has lost the target is told (``fence``).
"""
