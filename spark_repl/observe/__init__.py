"""Observe: what the applier is doing, for people and for Prometheus, under MySQL's names.

In: the reports of applier, receiver and runs, in files below ``_repl``, and the control table. Out:
``status``, metrics, the page, progress bars. ``reports`` has the reports, and keeps each worker's
own error: error 3030, of workers that were turned away, never replaces it. ``status`` combines
reports and control table into one dict. ``web`` serves it; ``screen`` and ``metrics`` print it.

The room writes only those files, which nothing else depends on: an applier continues without them.
It needs no Spark, and never asks the source.
"""
