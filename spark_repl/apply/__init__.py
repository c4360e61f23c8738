"""Apply: the way of a batch from Spark's stream to the published cut.

``replica`` opens a target, at the place that ``resume`` finds, and runs the stream; ``coordinator``
cuts batches into groups and dispatches them; ``stager`` has a group read by the workers;
``landing`` waits for its turn (``commit_order``), has it written (``in_order``, or ``lanes``
without commit order) and moves the ``low_water_mark``, which publishes cuts. ``statements`` carries
DDL out between groups (ALTER: ``alterations``), ``cascading`` places what foreign keys did and the
log does not say, and ``quarantining`` sets a table's changes aside that can't be applied.

The driver's room: it decides, row data does not pass through it.
"""
