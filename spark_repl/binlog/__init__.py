"""Binlog: bytes of MySQL's binary log -> events -> Arrow.

In: NumPy arrays of bytes, and places in them. Out: transactions' bounds (``events``), row images
and their values as Arrow arrays, lossless (``rows``, ``types``, ``json``, whose ``diff`` applies
partial updates). ``kernels`` is what all compiled code shares: ``jit``, the cache of machine code,
loads, checksums; ``charsets`` is for all text.

Pure: opens no file but the cache of machine code, no socket, starts no thread, and knows neither
Spark nor Delta. A damaged event raises DecodeError with its place; nothing is skipped.
"""
