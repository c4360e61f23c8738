"""A room's mutants, each in a fork of one process that has imported all and loaded its kernels.

A first fork runs all of the room's tests and notes what each reaches; then a fork for each mutant
runs those that reach its statement, the quickest first, until one fails.
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from .forked import Ended, forked
from .mutate import Mutant
from .reach import Reach, Recorder
from .swap import Loaded, NotSwappable

_MEMORY_MAX = 12 << 30
"""bytes that a mutant may address"""
_LATE_S, _LATE_CPU_S, _LATE_TIMES = 30.0, 4.0, 4.0
"""A test is cut off after these seconds and so many times what it took without a mutant."""
_COMPILING_S = 25.0
"""What it may take more where the mutant is in kernels."""


@dataclass(frozen=True)
class Verdict:
    """``by`` says which test failed, or else how the run ended; "" for a mutant that lives."""

    mutant: Mutant
    by: str
    tests: int
    """that reach it"""

    def __str__(self) -> str:
        ended = self.by or (
            f"lives with {self.tests} tests" if self.tests else "no test reaches it"
        )
        return f"{self.mutant.key}  (line {self.mutant.line}): {ended}"


@dataclass
class Recorded:
    """What a run without mutants found; in a fork, so it is handed on as plain values."""

    failed: str = ""
    reached: dict[str, Reach] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    kernels: list[tuple[str, Any]] = field(default_factory=list)
    """of each its name and a signature it was called with"""


class Warm:
    """A pytest plugin, which runs a room's mutants in place of its tests."""

    def __init__(
        self,
        package: Path,
        modules: tuple[str, ...],
        mutants: list[Mutant],
        cold: Callable[[Mutant, list[str]], str],
        *,
        verbose: bool,
    ) -> None:
        self._package, self._mutants, self._cold = package, mutants, cold
        self._verbose = verbose
        files = frozenset(str(package / module) for module in modules)
        self._recorder = Recorder(str(package), files)
        self._reached: dict[str, Reach] = {}
        self._imported = Reach()
        self._items: dict[str, pytest.Item] = {}
        self.verdicts: list[Verdict] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Any:
        """Functions that run when modules are imported can't be exchanged later."""
        with self._recorder.recording(self._imported):
            return (yield)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests that can't be collected")
        found = forked(lambda: self._record(session))
        if isinstance(found, Ended) or found.failed:
            raise session.Failed(f"fails without any mutant: {found}")
        self._reached = found.reached
        self._warm_up(found)
        self._items = {item.nodeid: item for item in session.items}
        loaded = Loaded(self._package)
        for mutant in self._mutants:
            verdict = self._verdict(mutant, loaded)
            self.verdicts.append(verdict)
            if self._verbose:
                print(f"  {verdict}", flush=True)
        return True

    def _record(self, session: pytest.Session) -> Recorded:
        found = Recorded()
        _silence(1, 2)
        for item, after in zip(session.items, [*session.items[1:], None], strict=True):
            reach = found.reached[item.nodeid] = Reach()
            with self._recorder.recording(reach):
                reports = runtestprotocol(item, log=False, nextitem=after)
            for report in reports:
                if report.failed:
                    found.failed = f"{item.nodeid}\n{report.longreprtext}"
                    return found
        found.modules = list(sys.modules)
        for kernel in Loaded(self._package).kernels:
            found.kernels += [(_name(kernel), signature) for signature in kernel.signatures]
        return found

    def _warm_up(self, found: Recorded) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in found.modules:
                if module.startswith(("spark_repl", "pyarrow", "numpy", "tests.")):
                    importlib.import_module(module)
        kernels = {_name(kernel): kernel for kernel in Loaded(self._package).kernels}
        for name, signature in found.kernels:
            kernels[name].compile(signature)

    def unreached(self, mutants: list[Mutant]) -> list[Mutant]:
        """Those that no test would run."""
        loaded = Loaded(self._package)
        return [one for one in mutants if self._tests(one, loaded) == []]

    def _tests(self, mutant: Mutant, loaded: Loaded) -> list[str] | None:
        """Those that reach it, the quickest first; None: it takes effect at import."""
        try:
            kernels = loaded.kernels_of(mutant)
        except NotSwappable:
            return None
        callers, calling = loaded.callers(kernels), self._calling(kernels)
        lines = {(str(self._package / mutant.module), line) for line in mutant.lines}
        if lines & self._imported.lines:
            return None
        return self._quickest(
            lambda test, r: bool(r.lines & lines or r.functions & callers or test in calling)
        )

    def _calling(self, kernels: list[Any]) -> set[str]:
        """Tests whose modules call one of the kernels themselves, which isn't seen either."""
        if not kernels:
            return set()
        modules = {test: item.getparent(pytest.Module).obj for test, item in self._items.items()}
        return {
            test
            for test, module in modules.items()
            if any(one is kernel for one in vars(module).values() for kernel in kernels)
        }

    def _verdict(self, mutant: Mutant, loaded: Loaded) -> Verdict:
        tests = self._tests(mutant, loaded)
        if tests is None:
            return self._verdict_of_cold(mutant)
        if not tests:
            return Verdict(mutant, "", 0)
        compiling_s = _COMPILING_S if loaded.kernels_of(mutant) else 0.0
        limits = [_Limit.of(self._reached[test], compiling_s) for test in tests]
        chosen = [self._items[test] for test in tests]
        by = forked(lambda: _killed_by(mutant, loaded, chosen, limits))
        shutil.rmtree(os.environ["HYPOTHESIS_STORAGE_DIRECTORY"], ignore_errors=True)
        if by is None:
            return self._verdict_of_cold(mutant)
        return Verdict(mutant, by.value if isinstance(by, Ended) else by, len(tests))

    def _verdict_of_cold(self, mutant: Mutant) -> Verdict:
        """Run with the mutant's source, by all tests that reach its module."""
        file = str(self._package / mutant.module)
        tests = self._quickest(lambda _, r: any(name == file for name, _ in r.functions))
        return Verdict(mutant, self._cold(mutant, tests) if tests else "", len(tests))

    def _quickest(self, reaches: Callable[[str, Reach], bool]) -> list[str]:
        found = [test for test, reach in self._reached.items() if reaches(test, reach)]
        return sorted(found, key=lambda test: self._reached[test].seconds)


@dataclass(frozen=True)
class _Limit:
    seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, reach: Reach, compiling_s: float) -> _Limit:
        return cls(
            _LATE_S + _LATE_TIMES * (reach.seconds + compiling_s),
            _LATE_CPU_S + _LATE_TIMES * reach.cpu_seconds + compiling_s,
        )

    def set(self) -> None:
        """Ends this process when they are over, whatever it does."""
        for timer, sent in (
            (signal.ITIMER_REAL, signal.SIGALRM),
            (signal.ITIMER_PROF, signal.SIGPROF),
        ):
            signal.signal(sent, signal.SIG_DFL)
            signal.setitimer(
                timer, self.seconds if timer == signal.ITIMER_REAL else self.cpu_seconds
            )


def _killed_by(
    mutant: Mutant, loaded: Loaded, items: list[pytest.Item], limits: list[_Limit]
) -> str | None:
    """The first test that fails, or ""; None if the mutant can't be put in here."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX, _MEMORY_MAX))
    try:
        loaded.swap(mutant)
    except NotSwappable:
        return None
    _silence(1, 2)
    for item, after, limit in zip(items, [*items[1:], None], limits, strict=True):
        limit.set()
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=after)):
            return item.nodeid
    return ""


def _silence(*descriptors: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)


def _name(kernel: Any) -> str:
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"
