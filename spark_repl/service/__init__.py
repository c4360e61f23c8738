"""Service: ``run``, receiver and applier together, until it is stopped.

In: a configuration with a source and a target; signals, and requests of commands. Out: tables that
follow the source (``channel_run``). ``supervisor`` keeps the receiver's process running; the
applier's stream is in this process. First copies, new copies, purging and scheduled verifies run
beside it. Several channels have a thread each (``channel_runs``).

The room never writes a table, a cut or a log itself: it starts the parts that do, and sees their
end.
"""
