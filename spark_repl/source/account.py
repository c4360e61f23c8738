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


def password_of(source: Source) -> str:
    """Return the account's password. Raise SecretError if the configured place has none."""
    if source.password_env:
        if source.password_env not in os.environ:
            raise SecretError(
                f"the environment has no {source.password_env} (source.password_env)",
                hint=f"export {source.password_env}=... in the shell that starts it; or have"
                " source.password_file or password_command say it (init --password-file, ...)",
            )
        return os.environ[source.password_env]
    if source.password_file:
        try:
            with open(source.password_file, encoding="utf-8") as lines:
                return lines.readline().rstrip("\r\n")
        except OSError as error:
            raise SecretError(
                f"can't read the password: {error.strerror}", file=source.password_file
            ) from error
        except UnicodeDecodeError:  # the error contains the secret
            raise SecretError(
                "can't read the password: it is not UTF-8", file=source.password_file
            ) from None
    if source.password_command:
        return _printed_password(source.password_command)
    return source.password


def _printed_password(command: str) -> str:
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
        password = output.split("\n", 1)[0].rstrip("\r")
        if not status and password:
            return password
        reason = f"it ended with {status}" if status else "it printed no password"
        complaint = errors.strip().rpartition("\n")[2][:_COMPLAINT_MAX]
        if complaint and not (password and password in complaint):
            reason = f"{reason}: {complaint}"
    raise SecretError(
        f"source.password_command failed: {reason}",
        hint="it has to print the password, on one line, and end with 0",
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
