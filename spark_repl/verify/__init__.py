"""Verify: rows of a live source beside the rows of a cut, while the applier goes on.

In: a source with GTIDs, a target, names of tables. Out: which rows differ, of which none is named
because of what was under way. It never writes to a table, and takes no lock on the source.
"""
