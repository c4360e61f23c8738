"""The bits that describe a row image: one definition for the modules that walk, fold and write
images.

An UPDATE that keeps the key has EXISTED and EXISTS. An UPDATE that changes the key, or that is
requested as two entries, has EXISTED in the first entry, and EXISTS and MOVED in the second.
"""

from __future__ import annotations

EXISTED = 1
"""the row existed under this key before the change"""
EXISTS = 2
"""the row exists under this key after the change"""
CERTAIN = 4
"""the outcome does not depend on whether the row exists: an INSERT or DELETE in idempotent mode"""
MOVED = 8
"""the second of two entries of one UPDATE"""
