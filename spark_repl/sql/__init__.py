"""SQL: the text of a logged statement -> what it does to tables.

In: a statement's text and its session. Out: an effect (creates, alters, renames or drops tables, or
none), with a reason if the applier can't carry it out; the table definition of a CREATE TABLE, and
the actions of an ALTER TABLE (``alter_table`` reads them into ``actions``).

Pure: this room asks no server and no target. It refuses what it does not understand.
"""
