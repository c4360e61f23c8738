"""The log that is applied: what is known of it, and events that are read one at a time."""
