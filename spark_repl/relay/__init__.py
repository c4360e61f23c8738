"""Relay: the files of a recorded log or of our relay log, and the index of their transactions.

In: a folder. Out: ``RelayLog`` (its files in order), ``TransactionIndex`` (a record per
transaction, in log order), statements, places, and what is wrong with a log (``verify``).

Reads only, and takes no lock (WL#5721): the published end says how far a reader may go, and a
file that is purged meanwhile is a named error or a new look.
"""
