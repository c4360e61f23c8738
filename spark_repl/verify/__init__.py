"""Verify: rows of a live source compared with the rows of a cut, while the applier continues.

In: a source with GTIDs, a target, names of tables; or two cuts of a target. Out: the rows that
differ; a row that differs only because changes were in progress is not among them. ``verifier``
reads and compares, ``table_check`` follows the differing keys from look to look. Digests of rows
are kept in a separate folder until the verify ends.

A verify never writes to a table (it requests repairs from the applier), and takes no lock on the
source.
"""
