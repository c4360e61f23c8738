"""Events: bytes of a log -> where transactions begin and end, of what kind they are, and the events
that are read one at a time.

``scan`` hops over event headers, ``grammar`` says what an event means for its transaction,
``payload`` opens compressed ones, ``windows`` cuts what is larger than memory, ``row_events`` finds
table maps and row events, ``table_map`` and ``event`` parse what stands alone.

Never looks at a row's values.
"""
