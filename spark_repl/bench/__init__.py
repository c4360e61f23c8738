"""Bench: what this machine does, phase by phase: figures, never tests.

In: a recorded log, or a source under its own load. Out: rows, bytes and commits a second, and how
long a transaction takes from its commit to the cut. It applies into targets of its own, which it
removes, with the settings that ``apply`` and ``run`` have; ``latency`` alone is ``run`` itself, on
the target that is configured.

Never judges a figure, and changes nothing on a source.
"""
