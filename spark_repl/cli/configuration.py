"""The configuration that a command goes by: its file, what the command line says on top."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from ..config import Config, read_values
from ..config.tables import read_tables
from ..errors import ConfigError
from ..rules.row_filters import check_row_filters
from . import log_lines


def configuration(options: argparse.Namespace) -> Config:
    """The file's settings with the command line's on top. Raises ConfigError."""
    config = _read(options.config) if options.config else Config()
    given = {
        "relay.path": options.relay,
        "target.path": options.target,
        "apply.workers": options.workers,
    }
    if not options.config:
        for name in ("relay", "target"):
            if getattr(options, name) is None:
                raise ConfigError(f"--{name} is missing", hint="give it, or --config FILE")
    config = config.override({key: value for key, value in given.items() if value is not None})
    return _logged(_checked(config, options.config), options)


def loaded(options: argparse.Namespace) -> Config:
    """The configuration of a command that can't do without a file. Raises ConfigError."""
    return read_as(options.config, options)


def read_as(file: str, options: argparse.Namespace) -> Config:
    """That file's configuration, with what the command line says of the log. Raises ConfigError."""
    return _logged(checked(file), options)


def checked(file: str) -> Config:
    """That file's configuration alone. Raises ConfigError."""
    return _checked(_read(file), file)


def _read(file: str) -> Config:
    """The file's configuration. Raises ConfigError with its faults, and those of expressions."""
    values = read_values(file)
    try:
        return Config.from_mapping(values, file=file)
    except ConfigError as error:
        rules = read_tables(values.get("tables", ()), [])  # what is right of them
        more = failing(lambda: check_row_filters(rules))
        raise _as_one([error, *more], file) from None


def _checked(config: Config, file: str | None) -> Config:
    """The same configuration. Raises ConfigError with all that is wrong with it beyond its keys."""
    if errors := failing(config.check_supported, lambda: check_row_filters(config.tables)):
        raise _as_one(errors, file)
    return config


def failing(*tests: Callable[[], object]) -> list[ConfigError]:
    """The errors of the tests that fail."""
    errors = []
    for test in tests:
        try:
            test()
        except ConfigError as error:
            errors.append(error)
    return errors


def _as_one(errors: Sequence[ConfigError], file: str | None) -> ConfigError:
    if len(errors) == 1:
        return errors[0]
    faults = tuple(fault for one in errors for fault in one.faults or (one.message,))
    listed = "".join(f"\n  - {fault}" for fault in faults)
    hints = dict.fromkeys(one.hint for one in errors if one.hint)
    error = ConfigError(f"{len(faults)} faults{listed}", file=file, hint="; ".join(hints) or None)
    error.faults = faults
    return error


def _logged(config: Config, options: argparse.Namespace) -> Config:
    """Has the log written as the command line says, or else the file."""
    if options.log_format:
        config = config.override({"observe.log_format": options.log_format})
    log_lines.log_as(config.observe.log_format)
    return config
