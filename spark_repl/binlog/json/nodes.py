"""A JSON document as a table of its values: what its text and its binary form have in common.

A row per value in the document's order, int64[n, 5]. A container's values follow it; what lies in
it ends where its number of values is reached.
"""

from __future__ import annotations

# KIND: binary JSON's type codes, but every integer is INT64, or UINT64 above its range, and every
# container OBJECT_NODE or ARRAY_NODE. AT: an integer, a double's bits, a literal's code; else where
# the bytes of the value are. SIZE: how many bytes, or how many values a container has. KEY and
# KEY_SIZE: where the key is, of a value in an object; KEY_SIZE is -1 for others.
KIND, AT, SIZE, KEY, KEY_SIZE = range(5)
OBJECT_NODE, ARRAY_NODE, LITERAL_NODE, INT64, UINT64, DOUBLE_NODE = 0, 2, 4, 9, 10, 11
STRING_NODE, OPAQUE_NODE = 12, 15
DECIMAL_TEXT = 16
"""the digits of a decimal, as text"""
# An opaque value's MySQL type lies above its kind.
OPAQUE_TYPE = 8
