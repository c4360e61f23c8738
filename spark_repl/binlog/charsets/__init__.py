"""Charsets: a collation's id -> its character set, and bytes in it -> Unicode text, as the server
converts them (``charset``).

``one_byte`` and ``wide_text`` hold the characters that Python's codecs lack or map otherwise than
the server does.
"""
