"""A JSON document as a table of its values: the form that its text and its binary form share.

The table is int64[n, 5] with a row per value in the document's order. A container's values follow
it. The container ends when its number of values is reached.
"""

from __future__ import annotations

# KIND: binary JSON's type codes, but every integer is INT64, or UINT64 above its range, and every
# container OBJECT_NODE or ARRAY_NODE. AT: an integer, a double's bits or a literal's code,
# otherwise the offset of the value's bytes. SIZE: the number of bytes, or of a container's values.
# KEY and KEY_SIZE: offset and size of the key of a value in an object; KEY_SIZE is -1 for other
# values.
KIND, AT, SIZE, KEY, KEY_SIZE = range(5)
OBJECT_NODE, ARRAY_NODE, LITERAL_NODE, INT64, UINT64, DOUBLE_NODE = 0, 2, 4, 9, 10, 11
STRING_NODE, OPAQUE_NODE = 12, 15
DECIMAL_TEXT = 16
"""the digits of a decimal, as text"""
# The MySQL type of an opaque value is stored in the bits above its kind.
OPAQUE_TYPE = 8
