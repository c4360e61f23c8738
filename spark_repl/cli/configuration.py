"""The configuration that a command goes by: its file, what the command line says on top."""

from __future__ import annotations

import argparse

from ..config import Config, load
from ..ddl.row_filters import check_row_filters
from ..errors import ConfigError
from . import log_lines


def configuration(options: argparse.Namespace) -> Config:
    """The file's settings with the command line's on top. Raises ConfigError."""
    config = load(options.config) if options.config else Config()
    given = {
        "relay.path": options.relay,
        "target.path": options.target,
        "apply.workers": options.workers,
        "apply.writer": options.writer,
    }
    if not options.config:
        for name in ("relay", "target"):
            if getattr(options, name) is None:
                raise ConfigError(f"--{name} is missing", hint="give it, or --config FILE")
    config = config.override({key: value for key, value in given.items() if value is not None})
    config.check_supported()
    check_row_filters(config.tables)
    return _logged(config, options)


def loaded(options: argparse.Namespace) -> Config:
    """The configuration of a command that can't do without a file. Raises ConfigError."""
    return read_as(options.config, options)


def read_as(file: str, options: argparse.Namespace) -> Config:
    """That file's configuration, with what the command line says of the log. Raises ConfigError."""
    return _logged(checked(file), options)


def checked(file: str) -> Config:
    """That file's configuration alone. Raises ConfigError."""
    config = load(file)
    config.check_supported()
    check_row_filters(config.tables)
    return config


def _logged(config: Config, options: argparse.Namespace) -> Config:
    """Has the log written as the command line says, or else the file."""
    if options.log_format:
        config = config.override({"observe.log_format": options.log_format})
    log_lines.log_as(config.observe.log_format)
    return config
