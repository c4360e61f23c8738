"""DDL: logged statements -> what they do to tables, and tables' definitions.

In: a statement's text, its character set and sql_mode. Out: an effect (makes, drops, none), or a
StatementError that says what can't be applied; a TableDefinition as the table's TABLE_MAPs show it.

Pure: asks no server and no target, and refuses what it does not understand.
"""
