"""Catalog: tables of the newest cut, registered under names in a catalog of Spark.

In: published cuts, the ``[catalog]`` section. Out: entries of the session's catalog (a Hive
metastore, or what the session has in its place). The control table is the truth, and the catalog a
cache of it: the registrar compares what a cut names with what the catalog has, and repairs the
difference. A catalog that does not answer delays no group. The room never changes or drops an entry
that another writer has created, and reads and writes no table.

- ``naming``: the entry's name of each table;
- ``entry``: one entry, and the mark of its owner;
- ``reconcile``: the difference between wanted and existing entries;
- ``session_catalog``: the session's catalog;
- ``registration``: carries out the difference;
- ``registrar``: the thread beside the applier;
- ``managed``: tables that the catalog manages, instead of entries for tables in folders.
"""
