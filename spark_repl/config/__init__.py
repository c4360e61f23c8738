"""Config: a TOML file becomes frozen dataclasses, every rule checked once.

In: the file, and what the command line says on top. Out: a Config whose every key is one that there
is, of its kind and in its range, or ConfigError with all faults of the file. ``settings`` has the
sections and their keys, ``rules`` what a key may be, ``tables`` what is made of the tables that a
pattern fits, ``renaming`` how ``to`` names them, ``faults`` what does not go together,
``wildcards`` how a pattern names tables, ``side_by_side`` what several files have against each
other. It looks at no source, no log and no target.
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
