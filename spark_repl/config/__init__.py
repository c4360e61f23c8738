"""Config: a TOML file becomes frozen dataclasses, and every rule is checked once.

In: the file, and the command line's values. Out: a Config, in which every key exists, is of its
type and in its range; or ConfigError with all faults of the file. ``settings`` has the sections and
their keys, ``rules`` the allowed values of a key, ``tables`` the rules of ``[[tables]]``.
``renaming`` applies their ``to``. ``faults`` and ``sharding`` find keys that contradict each other.
``wildcards`` matches names, and ``side_by_side`` finds conflicts between files that run together.
The room reads no source, no log and no target.
"""

from .settings import (
    Apply,
    Config,
    Filters,
    Observe,
    Source,
    Target,
    load,
    read_values,
    toml,
    value_of,
)

__all__ = [
    "Apply", "Config", "Filters", "Observe", "Source", "Target", "load", "read_values", "toml",
    "value_of",
]  # fmt: skip
