"""``spark-repl init``: examines a source, and writes a configuration for it, with the files of the
place where it will run.

The file never holds a password, but names where the password comes from. It appears in one step,
readable only by its account. An existing file stays, unless ``--force`` is given.
"""

from __future__ import annotations

import argparse
import getpass
import os
import random
import shlex
import sys
import tomllib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..config import Config, toml
from ..config.relative_paths import command_beside, written_beside
from ..copy.survey import ERROR, Survey, survey
from ..errors import ConfigError
from ..runtime.private_files import private_opener
from .command_arguments import PASSWORD_VARIABLE, READERS
from .config_command import folder_findings, tell
from .init_plan import names_in, plan_fields, plan_lines, reader_values, size_text
from .output import emit
from .places import PLACES, place_files, place_findings

_PASSWORD_WAYS = ("password_env", "password_file", "password_command")
_SERVER_IDS = range(100_000, 2**32)
# key -> (its comment in the file, the question on a terminal)
_KEYS = {
    "channel": ("part of each commit's appId; a target may have several", ""),
    "source.host": ("the server to follow", "The MySQL server's host"),
    "source.port": ("", "Its port"),
    "source.socket": ("path of a Unix socket, instead of host and port", ""),
    "source.user": ("", "The account there"),
    "source.password_env": ("the environment variable that has the password", ""),
    "source.password_file": ("the first line of this file is the password", ""),
    "source.password_command": ("the first line that this command prints is the password", ""),
    "source.server_id": ("of its own among all servers and replicas of the source", ""),
    "source.tls": ('"": required of a server elsewhere; verify_identity checks who it is', ""),
    "source.tls_ca": ("PEM file of the authority that signed the source's certificate", ""),
    "relay.path": (
        "the received log: a folder of its own, on a local disk",
        "Folder of the log, from the file's folder",
    ),
    "target.path": (
        "the Delta tables: a folder, or s3://, gs:// or abfss:// with bucket and prefix",
        "Where the Delta tables go, from the file's folder",
    ),
    "target.state_path": ("the working state, on the driver's disk", ""),
    "target.column_mapping": ("false: an engine of yours can't read mapped columns", ""),
    "target.deletion_vectors": ("false: an engine of yours can't read them", ""),
    "apply.workers": ("partitions that decode and write side by side", ""),
    "filters.do_db": ("only these databases", ""),
}  # fmt: skip
_USUAL = {"source.host": "127.0.0.1", "source.port": 3306, "source.user": "repl",
          "relay.path": "relay", "target.path": "lake"}  # fmt: skip
# key -> what the file has of a flag's value, which starts at the working folder
_PATHS: dict[str, Callable[[str, str], str]] = {
    **dict.fromkeys(
        ("source.socket", "source.password_file", "source.tls_ca", "relay.path", "target.path"),
        written_beside,
    ),
    "source.password_command": lambda _, command: command_beside("command line", command),
}
_READERS = f"Engines that will read the tables, separated by commas ({', '.join(READERS)})"
_DATABASES = "Databases, separated by commas"
_WHERE = f"Where it will run ({', '.join(PLACES)})"
_WRITTEN_ALWAYS = ("source.host", "source.user", "source.server_id", "relay.path", "target.path")


@dataclass(frozen=True)
class Answers:
    """Answers from the command line and the terminal.

    ``values``: the keys of the file; ``place``: where it will run; ``password``: the typed
    password, used only for this connection; ``""``: the password comes from the place that the file
    names.
    """

    values: dict[str, Any]
    place: str = "laptop"
    password: str = ""


def init(options: argparse.Namespace) -> int:
    """Write the configuration, and print the source's problems. Return 1 if there are any.

    With ``--plan`` print what the first copy would read, and write nothing. Raise ConfigError for
    a wrong value, SourceError if the source can't be reached; nothing is written then.
    """
    if options.plan and options.offline:
        raise ConfigError("--plan needs the source", hint="leave out --offline")
    if not options.plan:
        _check_absent(options, [options.config])
    terminal = sys.stdin.isatty() and not options.json
    answers = ask(options, _asked if terminal else None, getpass.getpass)
    looked = None if options.offline else _look(options, answers, terminal)
    config = Config().override(answers.values).beside(options.config)
    text = text_of(answers.values, looked)
    findings = list(looked.findings) if looked else []
    findings += place_findings(answers.place, config, tomllib.loads(text))
    findings += folder_findings(config) if looked and answers.place == "laptop" else []
    errors = sum(finding.level == ERROR for finding in findings)
    if looked and looked.planned and (terminal or (options.plan and not options.json)):
        print("\n".join(plan_lines(looked.planned)))
    if options.plan:
        tell(findings)
        if looked and options.json:
            emit(plan_fields(looked.planned), True)
        elif not options.json:
            print(f"nothing was written: without --plan, init writes {options.config}",
                  file=sys.stderr)  # fmt: skip
        return 1 if errors else 0
    files = _write_all(options, answers.place, text, config.channel)
    tell(findings)
    fields = {
        "config": options.config,
        "server_id": answers.values.get("source.server_id", Config().source.server_id),
        "errors": errors,
        "warnings": len(findings) - errors,
    }
    if looked:
        fields |= {"version": looked.version, "tables": looked.tables, "bytes": looked.bytes}
    if files:
        fields |= {"files": files if options.json else " ".join(files)}
    emit(fields, options.json)
    if not options.json:
        say = "correct the errors, then:" if errors else "now:"
        start = [f"see docs/run-on/{answers.place}.md"] if files else start_commands(
            options.config, config)  # fmt: skip
        print(say, *start, sep="\n  ", file=sys.stderr)
    return 1 if errors else 0


def _look(options: argparse.Namespace, answers: Answers, terminal: bool) -> Survey:
    """Survey the source, and add the server_id to the answers. On a terminal also ask which
    databases to replicate, and survey again if they are a part."""

    def look() -> Survey:
        config = Config().override(answers.values).beside(options.config)
        look_planned = partial(survey, plan=True)
        looked, server_id = survey_with_server_id(
            _with_password(config, answers), answers.values, look_planned
        )
        answers.values["source.server_id"] = server_id
        return looked

    looked = look()
    databases = sorted({table.name.partition(".")[0] for table in looked.planned})
    if terminal and "filters.do_db" not in answers.values and len(databases) > 1:
        chosen = names_in(_asked(_DATABASES, ", ".join(databases)))
        if unknown := sorted({*chosen} - {*databases}):
            raise ConfigError(f"the source has no database {unknown[0]!r} with tables")
        if chosen != databases:
            answers.values["filters.do_db"] = chosen
            looked = look()
    return looked


def start_commands(file: str, config: Config) -> list[str]:
    """Return the shell commands that start ``run``. The first one reads the password into its
    variable, if the variable is not set yet."""
    run = f"spark-repl run --config {shlex.quote(file)}"
    name = config.source.password_env
    if not name or name in os.environ:
        return [run]
    return [f"read -rs {name} && export {name}  # type the password of {config.source.user}", run]


def _check_absent(options: argparse.Namespace, files: list[str]) -> None:
    for file in files:
        if os.path.lexists(file) and not options.force:
            raise _exists(file)


def _write_all(options: argparse.Namespace, place: str, text: str, channel: str) -> list[str]:
    """Write the configuration, and the place's files beside it. Return the names of these. Raise
    ConfigError if one of them exists, unless ``--force`` is given."""
    folder = os.path.dirname(options.config)
    files = {
        os.path.join(folder, name): content
        for name, content in place_files(place, options.config, text, channel).items()
    }
    _check_absent(options, [*files])
    write(options.config, text, force=options.force)
    for file, content in files.items():
        write(file, content, force=options.force)
    return [*files]


def ask(
    options: argparse.Namespace,
    asked: Callable[[str, Any], str] | None,
    hidden: Callable[[str], str],
) -> Answers:
    """Return the values of the flags, and the terminal's answers for the others.

    ``asked`` is None without a terminal. Paths in flags are relative to the working folder, typed
    paths to the file's folder. Raise ConfigError for a value that breaks a rule of the file.
    """
    place = options.on or (asked(_WHERE, "laptop") if asked else "laptop")
    if place not in PLACES:
        raise ConfigError(f"{place!r} is no place", hint=f"give one of {', '.join(PLACES)}")
    usual = {**_USUAL, **PLACES[place].values}
    values: dict[str, Any] = {}
    for key, (_, question) in _KEYS.items():
        value = getattr(options, key.replace(".", "_"), None)
        local = key in ("source.host", "source.port") and options.source_socket
        if value is not None and key in _PATHS:
            value = _PATHS[key](options.config, value)
        if value is None and question and asked and not local:
            value = asked(question, usual[key])
            value = int(value) if key == "source.port" and value.isdigit() else value
        if value is None:
            value = PLACES[place].values.get(key)
        if value is not None:
            values[key] = value
    if not options.offline and asked is None and not {"source.host", "source.socket"} & set(values):
        raise ConfigError("--host is missing", hint="give it, or --socket, or --offline")
    readers = options.reader or (names_in(asked(_READERS, "spark")) if asked else [])
    values |= reader_values(readers)
    password = ""
    if not any(f"source.{way}" in values for way in _PASSWORD_WAYS):
        values["source.password_env"] = PASSWORD_VARIABLE
        if asked and PASSWORD_VARIABLE not in os.environ and not options.offline:
            password = hidden(
                f"The account's password (for now; later ${PASSWORD_VARIABLE} has it): "
            )
    Config().override(values)
    return Answers(values, place, password)


def _asked(question: str, usual: Any) -> str:
    print(f"{question} [{usual}]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() or str(usual)


def _with_password(config: Config, answers: Answers) -> Config:
    if not answers.password:
        return config
    return config.override({"source.password_env": "", "source.password": answers.password})


def survey_with_server_id(
    config: Config, values: dict[str, Any], ask: Callable[[Config], Survey] = survey
) -> tuple[Survey, int]:
    """Return the survey of the source, and the server_id of the replica.

    Without a server_id in ``values``, choose one that neither the source nor a replica of it has.
    """
    if (given := values.get("source.server_id")) is not None:
        return ask(config), given
    while True:
        number = random.SystemRandom().choice(_SERVER_IDS)
        looked = ask(config.override({"source.server_id": number}))
        if number not in looked.server_ids:
            return looked, number


def text_of(values: dict[str, Any], looked: Survey | None) -> str:
    """Return the file's text: given values, values that differ from the defaults, and the source's
    problems."""
    lines = [
        "# Configuration of one replica: spark-repl run --config FILE",
        "# Keys that are not here have their defaults: docs/configuration.md has all of them;",
        "# spark-repl config check --source --config FILE says what is wrong, now and later.",
        "# Relative paths start at the folder of this file.",
    ]
    if looked:
        size = f"{looked.tables} tables, {size_text(looked.bytes)}"
        lines += ["#", f"# The source was {_plain(looked.version)}, with {size}."]
        for finding in looked.findings:
            lines.append(f"# {finding.level.upper()}: {_plain(str(finding))}")
            if finding.hint:
                lines.append(f"#   {_plain(finding.hint)}")
    section = ""
    for key, (comment, _) in _KEYS.items():
        if key not in values and key not in _WRITTEN_ALWAYS:
            continue
        here, _, name = key.rpartition(".")
        if here != section:
            lines += ["", f"[{here}]"]
            section = here
        value = values.get(key, _default(key))
        lines.append(f"{name} = {toml(value)}" + (f"  # {comment}" if comment else ""))
    return "\n".join(lines) + "\n"


def _default(key: str) -> Any:
    section, _, name = key.rpartition(".")
    return getattr(getattr(Config(), section) if section else Config(), name)


def _plain(text: str) -> str:
    """Return a source's text on one line of a comment: a table's name may hold any character."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _exists(file: str) -> ConfigError:
    return ConfigError(
        "there is a file already", file=file,
        hint="--force replaces it; --config names another one",
    )  # fmt: skip


def write(file: str, text: str, *, force: bool) -> None:
    """Write the file durably and atomically. Raise ConfigError if it exists, unless ``force``, or
    if it can't be written."""
    part = f"{file}.{uuid.uuid4().hex}.part"
    try:
        try:
            with open(part, "x", encoding="utf-8", opener=private_opener) as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            if force:
                os.replace(part, file)
            else:
                os.link(part, file)
        finally:
            if os.path.exists(part):
                os.unlink(part)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as error:
        raise ConfigError(f"can't write the configuration: {error.strerror}", file=file) from error
