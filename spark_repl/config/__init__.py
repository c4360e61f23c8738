"""Config: a TOML file becomes frozen dataclasses, and every rule is checked once.

In: the file, and the command line's values. Out: a Config, in which every key exists, is of its
type and in its range; or ConfigError with all faults of the file. ``settings`` reads a file.
``sections`` has the keys of each section, ``rules`` the allowed values of a key, ``tables`` the
rules of ``[[tables]]``, ``relative_paths`` what paths are relative to. ``renaming`` applies the
``to`` of those rules. ``faults`` finds keys that contradict each other. ``wildcards`` matches
names, and ``side_by_side`` finds conflicts between files that run together. The room reads no
source, no log and no target.
"""

from .sections import Apply, Filters, Observe, Source, Target
from .settings import Config, load, read_values, toml, value_of

__all__ = [
    "Apply", "Config", "Filters", "Observe", "Source", "Target", "load", "read_values", "toml",
    "value_of",
]  # fmt: skip
