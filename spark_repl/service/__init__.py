"""Service: ``run``: receiver and applier together, for as long as somebody wants.

The receiver is a process of its own that is kept running (``supervisor``), the applier's stream is
in this one; first copies, new copies and purging go on beside.
"""
