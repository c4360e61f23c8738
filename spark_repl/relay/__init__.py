"""Relay logs: the files of a recorded binary log or of our own relay log, and the index of their
transactions.

In: a folder. Out: ``RelayLog`` (its files in order), ``TransactionIndex`` (one record per
transaction, in log order), statements, positions, a log's faults (``verify``), and the objects of
its ``archive``.

Readers take no lock for which a writer waits (WL#5721). They read up to the published end. If a
file is purged while it is read, the reader lists the files again or raises an error that names the
file. The room writes indexes and leases, but no log file; it also defines the formats of a log's
list and published end, which the receiver writes.
"""
