"""Web: the page, ``/metrics`` and ``/status.json`` over HTTP, and the page as one file.

In: a status, and the cuts that are kept. Out: HTML and SVG that need nothing from the network. Text
of a source (names, statements, messages) is escaped here, and never becomes markup.
"""
