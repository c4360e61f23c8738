"""Spark's structured stream over the relay log: the source (``spark_source``), its
batches (``stream``), and Spark's checkpoint (``stream_checkpoint``)."""
