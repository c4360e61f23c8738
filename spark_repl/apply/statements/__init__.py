"""DDL statements of the log: each is applied alone, between two groups."""
