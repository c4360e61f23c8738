"""Verify: rows of a live source beside the rows of a cut, while the applier goes on.

In: a source with GTIDs, a target, names of tables; or two cuts of a target. Out: which rows differ,
of which none is named because of what was under way: ``compare`` finds them at the first look,
``table_check`` follows them from look to look. Digests of rows lie in a folder of its own
meanwhile, which goes with it.

Never writes to a table (a repair is asked of the applier), and takes no lock on the source.
"""
