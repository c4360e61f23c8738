"""Relative paths of a configuration: a file has them relative to its own folder."""

from __future__ import annotations

import os
import re
import shlex

NO_FOLDER = re.compile(r"(s3[an]?|file|gc?s|hdfs|abfss?|wasbs?|az|azure|dbfs):", re.IGNORECASE)
"""prefixes of object store paths, which must not be read as folders of that name"""
OFF = "off"
"""``relay.archive`` of a relay log without an archive"""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_relative(path: str) -> bool:
    """Return whether a path is relative: not empty, not absolute, and not on an object store."""
    return bool(path) and not (os.path.isabs(path) or NO_FOLDER.match(path) or _URI.match(path))


def beside(file: str, path: str) -> str:
    """Return the absolute form of a path in a file. Return a path that is not relative
    unchanged."""
    if not is_relative(path):
        return path
    return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(file)), path))


def archive_beside(file: str, path: str) -> str:
    """Return the absolute form of ``relay.archive``, which may also be "off"."""
    return OFF if path.lower() == OFF else beside(file, path)


def command_beside(file: str, command: str) -> str:
    """Return the command with an absolute path of its program, if the program is a path relative to
    the file. A program without a slash is looked up in PATH, and arguments are unchanged."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:  # empty, or an open quote: an attempt to run it reports that
        return command
    if "/" not in program or not is_relative(program):
        return command
    return shlex.join([beside(file, program), *arguments])


def written_beside(file: str, path: str) -> str:
    """Return the form in which a path of the working folder is written to the file: relative if it
    is below the file's folder, otherwise absolute."""
    if not is_relative(path):
        return path
    whole = os.path.abspath(path)
    inner = os.path.relpath(whole, os.path.dirname(os.path.abspath(file)))
    return whole if inner.split(os.sep)[0] == os.pardir else inner
