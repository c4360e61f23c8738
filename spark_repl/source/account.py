"""The account on a source: its addresses, and where its password comes from."""

from __future__ import annotations

import ipaddress
import os
import shlex
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import SecretError

if TYPE_CHECKING:
    from ..config import Source


_COMMAND_TIMEOUT_S = 30


def password_of(source: Source) -> str:
    """Return the account's password. Raises SecretError if the configured place has none."""
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
        except UnicodeDecodeError:  # it holds what was read
            raise SecretError(
                "can't read the password: it is not UTF-8", file=source.password_file
            ) from None
    if source.password_command:
        return _printed_password(source.password_command)
    return source.password


def _printed_password(command: str) -> str:
    """Return the first line that a command prints. Errors show neither the command, whose
    arguments may be secret, nor its output."""
    try:
        process = subprocess.run(
            shlex.split(command), capture_output=True, text=True, check=False,
            timeout=_COMMAND_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        reason = f"no answer within {_COMMAND_TIMEOUT_S} s"
    except OSError as error:
        reason = error.strerror or "it can't be run"
    except ValueError:  # quotes that don't close, or bytes that are no text
        reason = "its quotes don't close, or what it prints is not UTF-8"
    else:
        if not process.returncode:
            return process.stdout.split("\n", 1)[0].rstrip("\r")
        reason = process.stderr.strip() or f"it ended with {process.returncode}"
    raise SecretError(
        f"source.password_command failed: {reason}",
        hint="it has to print the password, on one line, and end with 0",
    )


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
