"""Control: what a target records beside its rows: owner, histories, copies, XA branches, cuts.

``table``: the control table, a small Delta table below ``_repl``: its rows, its owner, the fence
against former owners, and how a cut is encoded. ``records``: one module for each kind of row, and
the rules by which rows are pruned. ``transaction_files``: bytes of prepared XA branches and of
transactions that a quarantined table lacks. ``cuts``: the readers' side, all tables at one GTID set
of the source.

Imports go from ``cuts`` to ``records`` to ``table``, also for annotations. The owner alone writes
rows, each of them once. A process that has lost the target can't write (``table/fence``).
"""
