"""Spark's structured stream over the relay log: the source, the batch function, its checkpoint."""
