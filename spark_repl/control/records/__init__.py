"""Records: the kinds of rows in the control table, each with the functions that write and read it.

``copies``, ``definitions`` and ``table_paths`` describe tables, ``claimed_names`` whose a table is
where several channels have one target, ``operator_decisions`` and ``skips`` what an operator asked
for.
``retention`` promises cuts, ``pruning`` chooses the rows that stay, and ``replaced_tables`` removes
folders that no row names.
"""
