"""The log that is applied: its files and index, and events that are read one at a time."""
