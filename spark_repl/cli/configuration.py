"""Configuration of a command: its file, overridden by the command line. Widgets of notebooks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any

from ..config import Config, read_values
from ..config.tables import read_tables
from ..errors import ConfigError
from ..rules.row_filters import check_row_filters
from . import log_lines


def configuration(options: argparse.Namespace) -> Config:
    """Return the file's settings, overridden by the command line's. Raise ConfigError."""
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
    """Return the configuration of a command that requires a file. Raise ConfigError."""
    return read_as(options.config, options)


def read_as(file: str, options: argparse.Namespace) -> Config:
    """Return a file's configuration, with the command line's log format. Raise ConfigError."""
    return _logged(checked(file), options)


def checked(file: str) -> Config:
    """Return a file's configuration. Raise ConfigError."""
    return _checked(_read(file), file)


def _read(file: str) -> Config:
    """Return the file's configuration. Raise ConfigError with its faults, also of expressions."""
    values = read_values(file)
    try:
        return Config.from_mapping(values, file=file)
    except ConfigError as error:
        rules = read_tables(values.get("tables", ()), [])  # the valid ones
        more = failing(lambda: check_row_filters(rules))
        raise _combined([error, *more], file) from None


def _checked(config: Config, file: str | None) -> Config:
    """Return the configuration. Raise ConfigError with its faults beyond single keys."""
    if errors := failing(config.check_supported, lambda: check_row_filters(config.tables)):
        raise _combined(errors, file)
    return config


def failing(*tests: Callable[[], object]) -> list[ConfigError]:
    """Return the errors of the tests that fail."""
    errors = []
    for test in tests:
        try:
            test()
        except ConfigError as error:
            errors.append(error)
    return errors


def _combined(errors: Sequence[ConfigError], file: str | None) -> ConfigError:
    if len(errors) == 1:
        return errors[0]
    faults = tuple(fault for error in errors for fault in error.faults or (error.message,))
    listed = "".join(f"\n  - {fault}" for fault in faults)
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    error = ConfigError(f"{len(faults)} faults{listed}", file=file, hint="; ".join(hints) or None)
    error.faults = faults
    return error


def _logged(config: Config, options: argparse.Namespace) -> Config:
    """Set the log's format: the command line's, or else the file's."""
    if options.log_format:
        config = config.override({"observe.log_format": options.log_format})
    log_lines.log_as(config.observe.log_format)
    return config


def widget(dbutils: Any, name: str, default: str) -> str:
    """Return the value of a widget of Databricks. Without ``dbutils``, which is None elsewhere, the
    environment variable NOTEBOOK_<NAME> has the value, or the default counts."""
    widgets = getattr(dbutils, "widgets", None)
    if widgets is None:
        return os.environ.get(f"NOTEBOOK_{name.upper()}", default)
    widgets.text(name, default)
    return str(widgets.get(name))
