"""Observe: what the applier is doing, for people and for Prometheus, under MySQL's names.

In: what the applier and the receiver say of themselves, in files below ``_repl``, and the control
table. Out: ``status``, metrics, the page, a progress bar. ``worker_status`` keeps each worker's own
error: 3030, of those turned away, never takes its place.

Writes those files alone, which nothing else depends on: an applier goes on without them. Needs no
Spark, and never asks the source.
"""
