"""Expressions of generated columns, defaults and row filters: from words to values of rows.

In: the words of an expression, the table's columns after the statement, the session. Out: a
``ComputedValue`` that workers evaluate over Arrow arrays with MySQL's types and results, or
NotComputed, which names the part that is not computed here. A row whose value is not known raises
Unconvertible.
"""
