"""Charsets: a collation's id -> its character set, and bytes in it -> Unicode text, as the server
converts them (``charset``).

Characters that the server has and Python's codecs lack, or map otherwise, stand in ``one_byte``
and ``wide_text``.
"""
