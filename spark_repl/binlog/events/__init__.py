"""Events: bytes of a log -> the bounds and kinds of its transactions, and single events as objects.

``scan`` reads event headers only. ``grammar`` decides the effect of an event on its transaction.
``payload`` decompresses compressed transactions. ``windows`` divides transactions that are larger
than memory. ``row_events`` finds table maps and row events. ``table_map`` and ``event`` parse
single events.

Never reads the values of a row.
"""
