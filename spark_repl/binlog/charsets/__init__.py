"""Charsets: a collation's id -> its character set, and bytes in it -> Unicode text, as the server
converts them (``charset``).

Characters that the server has and Python's codecs lack, or map otherwise, stand in ``one_byte``
and ``wide_text``.
"""

BINARY = 63
"""The collation of what is bytes, and no text."""
