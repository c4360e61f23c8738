"""Shared tables: Delta tables with one shard for each table of the source, of several channels."""
