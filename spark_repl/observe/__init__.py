"""Observe: what the applier is doing, for people and for Prometheus, under MySQL's names.

In: what the applier and the receiver say of themselves, in files. Out: ``status``, metrics, a
progress bar. Reads what is there; changes nothing and needs no Spark.
"""
