"""Source: one connection to a MySQL server, and what is said over it.

In: an account. Out: bytes of a dump, or of a query's answer. Every session sets all that its
answers depend on (``settings``), whatever the server's globals say.

Reads only: no statement of ours changes anything on a source.
"""
