"""What a row image says of its row, as bits: one definition for all that walk, fold and write them.

An UPDATE of one key is EXISTED and EXISTS; one that moves its row to another key, or is asked for
as two entries, is EXISTED and then EXISTS with MOVED.
"""

from __future__ import annotations

EXISTED = 1
"""the row was there under this key"""
EXISTS = 2
"""it is there behind the change"""
CERTAIN = 4
"""its outcome does not depend on the row being there: of an INSERT or DELETE in idempotent mode"""
MOVED = 8
"""the second of two entries of one UPDATE"""
