"""Source: one connection to a MySQL server, and the protocol over it.

In: an account. Out: bytes of a dump, or of a query's answer. Every session sets all variables on
which its answers depend (``source_settings``), whatever the server's globals are. It only reads: no
statement of ours changes anything on a source.
"""
