"""Relay: the files of a recorded log or of our relay log, and the index of their transactions.

In: a folder. Out: ``RelayLog`` (its files in order), ``TransactionIndex`` (a record per
transaction, in log order), statements, places, and what is wrong with a log (``verify``).

Readers take no lock that a writer waits for (WL#5721): the published end says how far one may go,
and a file that is purged meanwhile is a named error or a new look. Writes no log file: indexes of
what was read and leases are its own, and the forms of a log's list and end, for its writer.
"""
