"""Tables of the target, as their own commits describe them.

``tracking`` has every table's position and live files; ``table_commits`` commits to a table, and
handles what other writers committed in between; ``new_tables`` creates tables.
"""
