"""Service: ``run``: receiver and applier together, for as long as somebody wants.

In: a configuration with a source and a target; signals, and requests that commands have left. Out:
tables that follow the source (``channel_run``). The receiver is a process of its own that is kept
running (``supervisor``), the applier's stream is in this one; first copies, new copies, purging and
scheduled verifies go on beside. Several channels have a thread each (``channel_runs``).

Never writes a table, a cut or a log itself: it starts those who do, and sees when one has ended.
"""
