"""The configuration: frozen dataclasses read from TOML, every rule checked once.

The keys and their defaults are those of docs/configuration.md. All faults of a file are reported
together in one ConfigError; an unknown key is a fault that names the nearest known one.

Relative paths in a file start at the folder of the file.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from . import rules
from .faults import combination_faults
from .sections import (
    Apply,
    Catalog,
    Ddl,
    Filters,
    Observe,
    Relay,
    Source,
    Target,
    key_field,
)
from .tables import TABLE_KEYS, TableRule, of_channel, read_tables


@dataclass(frozen=True)
class Config:
    """The settings of a replica. ``Config()`` has all defaults."""

    channel: str = key_field("default", rules.CHANNEL)
    source: Source = field(default_factory=Source)
    relay: Relay = field(default_factory=Relay)
    target: Target = field(default_factory=Target)
    apply: Apply = field(default_factory=Apply)
    ddl: Ddl = field(default_factory=Ddl)
    filters: Filters = field(default_factory=Filters)
    tables: tuple[TableRule, ...] = ()
    """the first one that matches a table applies"""
    catalog: Catalog = field(default_factory=Catalog)
    observe: Observe = field(default_factory=Observe)
    file: str = field(default="", compare=False)
    """absolute path of the file that has these values, "" for none. It is not a key of the file"""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, file: str | None = None) -> Config:
        """Return the configuration of a file's values, whose relative paths start at the folder of
        ``file``. Raise one ConfigError that lists all errors."""
        faults: list[str] = []
        top: dict[str, Any] = {}
        for name, value in values.items():
            if name in _SECTIONS:
                top[name] = _section(name, value, faults)
            elif name == "tables":
                top[name] = read_tables(value, faults)
            elif name in _TOP:
                _store_value(top, _TOP[name], name, value, faults)
            else:
                faults.append(_unknown(name))
        sections = {name: top.get(name, section()) for name, section in _SECTIONS.items()}
        channel = top.get("channel", cls.channel)
        top["tables"] = of_channel(top.get("tables", ()), channel)
        given = {"tables": top["tables"], "channel": channel}
        faults += combination_faults({**sections, **given})
        if faults:
            raise faulty("is not a valid configuration", faults, file)
        return cls(**top) if file is None else cls(**top).beside(file)

    def beside(self, file: str) -> Config:
        """Return a copy that names ``file`` as its file. In the copy, relative paths start at the
        file's folder, also those of defaults."""
        sections = {}
        for name in _SECTIONS:
            section = getattr(self, name)
            sections[name] = replace(section, **{
                key.name: key.metadata["beside"](file, getattr(section, key.name))
                for key in fields(section)
                if "beside" in key.metadata
            })  # fmt: skip
        return replace(self, file=os.path.abspath(file), **sections)

    def to_mapping(self) -> dict[str, Any]:
        """Return the values that ``from_mapping`` reads, including the password."""
        rules = [{key: getattr(rule, key) for key in TABLE_KEYS} for rule in self.tables]
        values = {**asdict(self), "tables": rules}
        del values["file"]
        return values

    def override(self, values: Mapping[str, Any]) -> Config:
        """Return a copy with some keys replaced (``{"apply.workers": 4}``), checked like a file's
        values. Raise ConfigError with all errors."""
        merged = self.to_mapping()
        for name, value in values.items():
            section, _, key = name.rpartition(".")
            (merged.setdefault(section, {}) if section else merged)[key] = value
        return replace(Config.from_mapping(merged), file=self.file)

    def names(self) -> tuple[str, ...]:
        """Return the dotted names of all keys."""
        return tuple(_KEYS)

    def check_supported(self) -> None:
        """Raise ConfigError that names every key whose value this version does not support yet."""
        faults = []
        asked = list[tuple[str, Any, tuple[Any, ...]]]()
        for name, item in _KEYS.items():
            value = value_of(self, name)
            done = item.metadata["done"]
            if done is not None and value not in done:
                asked.append((name, value, done))
        for name, value, done in asked:
            shown = "" if ".password" in name else f" = {toml(value)}"
            allowed = " or ".join(toml(choice) for choice in done)
            faults.append(f"{name}{shown} is not supported by this version yet, only {allowed}")
        if faults:
            raise faulty("asks for what this version does not do", faults, None)


_SECTIONS: dict[str, type] = {
    "source": Source,
    "relay": Relay,
    "target": Target,
    "apply": Apply,
    "ddl": Ddl,
    "filters": Filters,
    "catalog": Catalog,
    "observe": Observe,
}
_TOP: dict[str, Field[Any]] = {f.name: f for f in fields(Config) if f.metadata}
# Every key by its dotted name.
_KEYS: dict[str, Field[Any]] = _TOP | {
    f"{name}.{f.name}": f for name, section in _SECTIONS.items() for f in fields(section)
}


def value_of(config: Config, name: str) -> Any:
    """Return the value of a key by its dotted name."""
    section, _, key = name.rpartition(".")
    return getattr(getattr(config, section) if section else config, key)


def load(path: str | Path) -> Config:
    """Return the configuration of a TOML file; its relative paths start at the file's folder. Raise
    ConfigError with all errors, or if the file cannot be read."""
    return Config.from_mapping(read_values(path), file=str(path))


def read_values(path: str | Path) -> dict[str, Any]:
    """Return the values of a TOML file, unchecked. Raise ConfigError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        hint = "it has to be a file that this account may read"
        if isinstance(error, FileNotFoundError):
            hint = f"spark-repl init --config {shlex.quote(str(path))} writes one"
        message = f"can't read the configuration: {error.strerror}"
        raise ConfigError(message, file=str(path), hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration is not TOML: {error}", file=str(path)) from error


def _section(name: str, values: Any, faults: list[str]) -> Any:
    section = _SECTIONS[name]
    if not isinstance(values, Mapping):
        faults.append(f"{name} must be a table: write its keys under [{name}]")
        return section()
    taken: dict[str, Any] = {}
    for key, value in values.items():
        declared = _KEYS.get(f"{name}.{key}")
        if declared is None:
            faults.append(_unknown(key, name))
        else:
            _store_value(taken, declared, f"{name}.{key}", value, faults)
    return section(**taken)


def _store_value(
    into: dict[str, Any], declared: Field[Any], name: str, value: Any, faults: list[str]
) -> None:
    fault = declared.metadata["rule"](value)
    if fault is None:
        into[declared.name] = tuple(value) if isinstance(value, list) else value
        return
    faults.append(f"{name} {fault}")
    assert declared.default is not MISSING
    into[declared.name] = declared.default


def _unknown(key: str, section: str = "") -> str:
    """Return a fault that names the nearest key: in the same section, else the same name in another
    section, else any key of the section."""
    name = f"{section}.{key}" if section else key
    here = [k for k in _KEYS if k.rpartition(".")[0] == section]
    here += [] if section else [*_SECTIONS, "tables"]
    elsewhere = {k.rpartition(".")[2]: k for k in _KEYS}
    near = (
        difflib.get_close_matches(name, here, 1, 0.75)
        or [elsewhere[k] for k in difflib.get_close_matches(key, [*elsewhere], 1, 0.8)]
        or difflib.get_close_matches(name, here, 1, 0.0)
    )
    return f"unknown key {name}; the nearest is {near[0]}"


def toml(value: Any) -> str:
    """Return a value in TOML's form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + "}"
    # JSON and TOML have the same escapes, except that TOML requires one for DEL.
    return (
        json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        if isinstance(value, str)
        else str(value)
    )


def faulty(what: str, faults: list[str], file: str | None = None) -> ConfigError:
    """Return one error that lists all problems. ``what`` follows the word configuration in the
    message."""
    if len(faults) == 1:
        error = ConfigError(faults[0], file=file)
    else:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        error = ConfigError(f"{len(faults)} faults; this {what}{listed}", file=file)
    error.faults = tuple(faults)
    return error
