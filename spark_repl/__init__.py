"""Spark-native MySQL replication applier: binary log in, Delta tables out, in commit order."""
