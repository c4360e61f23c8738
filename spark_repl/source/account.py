"""The account on a source: its addresses, and where its password comes from."""

from __future__ import annotations

import ipaddress
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SecretError

if TYPE_CHECKING:
    from ..config import Source


_COMMAND_TIMEOUT_S = 30
_COMPLAINT_MAX = 300
_PASSWORD, _INIT = "source.password", " (init --password-file, ...)"


def password_of(source: Source) -> str:
    """Return the account's password. Raise SecretError if the configured place has none."""
    places = source.password_env, source.password_file, source.password_command
    return source.password if not any(places) else secret_of(_PASSWORD, *places)


def secret_of(key: str, variable: str, file: str, command: str) -> str:
    """Return a secret from the environment, the first line of a file, or what a command prints.

    ``key``: the beginning of the keys that name these places, as ``source.password``. Return "" if
    none is given. Raise SecretError if the place has no secret.
    """
    word = key.rpartition(".")[2]
    if variable:
        if variable not in os.environ:
            raise SecretError(
                f"the environment has no {variable} ({key}_env)",
                hint=f"export {variable}=... in the shell that starts it; or have"
                f" {key}_file or {word}_command say it{_INIT if key == _PASSWORD else ''}",
            )
        return os.environ[variable]
    if file:
        try:
            with open(file, encoding="utf-8") as lines:
                return lines.readline().rstrip("\r\n")
        except OSError as error:
            raise SecretError(f"can't read the {word}: {error.strerror}", file=file) from error
        except UnicodeDecodeError:  # the error contains the secret
            raise SecretError(f"can't read the {word}: it is not UTF-8", file=file) from None
    return _printed(command, key, word) if command else ""


def password_place(source: Source) -> str:
    """Return where a new password of the account has to be written, as the end of a hint."""
    if name := source.password_env:
        return f"stop this process, export {name}, and start it again"
    if source.password_file:
        return f"write it into {source.password_file}, which each attempt reads"
    if source.password_command:
        return "each attempt runs source.password_command"
    return "write it into the configuration, then restart, or send SIGHUP"


def _printed(command: str, key: str, word: str) -> str:
    """Return the first line that a command prints. Errors show neither the command, whose
    arguments may be secret, nor what it prints to standard output."""
    try:
        status, output, errors = _run(shlex.split(command))
    except subprocess.TimeoutExpired:
        reason = f"no answer within {_COMMAND_TIMEOUT_S} s"
    except OSError as error:
        reason = error.strerror or "it can't be run"
    except (ValueError, IndexError):  # quotes that don't close, or bytes that are no text
        reason = "its quotes don't close, or what it prints is not UTF-8"
    else:
        secret = output.split("\n", 1)[0].rstrip("\r")
        if not status and secret:
            return secret
        reason = f"it ended with {status}" if status else f"it printed no {word}"
        complaint = errors.strip().rpartition("\n")[2][:_COMPLAINT_MAX]
        if complaint and not (secret and secret in complaint):
            reason = f"{reason}: {complaint}"
    raise SecretError(
        f"{key}_command failed: {reason}",
        hint=f"it has to print the {word}, on one line, and end with 0",
    )


def _run(words: list[str]) -> tuple[int, str, str]:
    """Return a command's exit status and what it prints. Kill it with its children after 30 s.

    The children of a killed command would keep its output open, and the wait would not end.
    """
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            output, errors = process.communicate(timeout=_COMMAND_TIMEOUT_S)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output, errors


def is_local(source: Source) -> bool:
    """Return whether the connection stays on this machine."""
    if source.socket or source.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(source.host).is_loopback
    except ValueError:  # a name
        return False


def tls_of(source: Source) -> str:
    """Return ``source.tls``, or its default: check the certificate if an authority is given, as
    MySQL's clients do, and require TLS of a server on another machine."""
    if source.tls:
        return source.tls
    if source.tls_ca:
        return "verify_ca"
    return "preferred" if is_local(source) else "required"


def addresses(source: Source) -> list[Source]:
    """Return the address of the source, then those of the hosts for failover."""
    sources = [source]
    for entry in source.hosts:
        host, _, port = entry.rpartition(":")
        sources.append(replace(source, host=host.strip("[]"), port=int(port), socket=""))
    return sources
