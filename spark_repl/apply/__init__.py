"""Apply: the way of a batch from Spark's stream to the published cut.

``replica`` opens a target and runs the stream; ``coordinator`` cuts batches into groups and
dispatches them; ``stager`` has a group read by the workers; ``landing`` has it written in its
turn (``in_order``, or ``lanes`` without commit order) and moves the ``low_water_mark``, which
publishes cuts.

The driver's room: it decides, row data does not pass through it.
"""
