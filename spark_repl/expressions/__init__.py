"""Expressions of generated columns, defaults and row filters: their words -> values of rows.

In: the words of an expression, the table's columns behind the statement, the session. Out: a
``ComputedValue`` that workers evaluate over Arrow arrays with MySQL's types and results, or NotComputed
with what is not computed here. Values whose outcome isn't known are Unconvertible.
"""
