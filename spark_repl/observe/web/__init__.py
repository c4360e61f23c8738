"""Web: the page, ``/metrics`` and ``/status.json`` over HTTP, and the page as one file.

In: a status, and the cuts that are kept. Out: HTML that needs nothing from the network. Text of a
source (names, statements, messages) is escaped here, and never becomes markup. ``assets`` has the
page's style and scripts, among them uPlot with its licence.
"""
