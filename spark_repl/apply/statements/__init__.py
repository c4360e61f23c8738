"""DDL statements of the log. The applier applies each one by itself, between two groups."""
