"""Binlog: bytes of MySQL's binary log -> events -> Arrow.

In: NumPy arrays of bytes, and offsets in them. Out: the bounds of transactions (``events``), row
images, and their values as lossless Arrow arrays (``rows``, ``types``, ``json``). ``json`` also
applies partial updates (``diff``). All compiled code shares ``kernels``: ``jit``, the cache of
machine code, loads, checksums. ``charsets`` converts all text.

Pure: opens no file except the cache of machine code, opens no socket, starts no thread, and imports
neither Spark nor Delta. A damaged event raises DecodeError with its place; nothing is skipped.
"""
