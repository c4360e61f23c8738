"""DDL: logged statements -> what they do to tables, and tables' definitions.

In: a statement's text and its session. Out: an effect (makes, alters, renames, drops, none), with a
reason where it can't be applied; a TableDefinition as the table's TABLE_MAPs show it, and what it
becomes by ALTER TABLE (read by ``alter_table`` into ``actions``, carried out on the definition by
``altered.alter``), with the origin of each column. What rules say of statements and rows is here,
too: ``filters`` (MySQL's replicate-*), ``row_filters``, ``policy``, ``column_rules``, ``masks``.

Pure: asks no server and no target, and refuses what it does not understand.
"""
