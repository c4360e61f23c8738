"""Tables: what the target holds, read from the tables' own commits.

``tracking`` knows every table's position and live files; ``table_commits`` commits to a table, and
resolves what other writers committed in between; ``new_tables`` creates tables.
"""
