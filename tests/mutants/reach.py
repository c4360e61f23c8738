"""Which lines each test reaches, in all threads of its process. What a process does that a test
starts isn't seen."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any


@dataclass
class Reach:
    """What one test reached, and the seconds it took, of the clock and of the processor."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    lines: set[tuple[str, int]] = field(default_factory=set)
    """file and line, of the modules that were asked for"""
    functions: set[tuple[str, str]] = field(default_factory=set)
    """file and qualified name, of the whole package"""


class Recorder:
    """Record which lines of ``files`` below ``package`` are reached."""

    def __init__(self, package: str, files: frozenset[str]) -> None:
        self._package, self._files = package, files
        self._lines: set[tuple[CodeType, int]] = set()
        self._codes: set[CodeType] = set()

    @contextmanager
    def recording(self, reach: Reach) -> Iterator[None]:
        self._lines, self._codes = set(), set()
        began, busy = time.monotonic(), time.process_time()
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            reach.seconds = time.monotonic() - began
            reach.cpu_seconds = time.process_time() - busy
            reach.lines |= {(code.co_filename, line) for code, line in self._lines.copy()}
            reach.functions |= {(c.co_filename, c.co_qualname) for c in self._codes.copy()}

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code not in self._codes:
            if not code.co_filename.startswith(self._package):
                return None
            self._codes.add(code)
        return self._line if code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines.add((frame.f_code, frame.f_lineno))
        return self._line
