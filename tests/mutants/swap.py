"""A mutant in a process that has imported everything: its function's code is exchanged in place, so
whoever holds the function, however it is wrapped, runs the mutant.

Kernels that have the function in their machine code are compiled again at their next call, and
their cache on disk is neither read nor written.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

from .mutate import Mutant


class NotSwappable(Exception):
    """The mutant lies in no function, so it takes effect when its module is imported."""


class Loaded:
    """The package's functions and kernels, as imported here."""

    def __init__(self, package: Path) -> None:
        self._package = package
        objects = gc.get_objects()
        self._functions = [one for one in objects if isinstance(one, FunctionType)]
        self._functions = [f for f in self._functions if self._is_own(f)]
        self.kernels = [k for k in objects if isinstance(k, Dispatcher) and self._is_own(k.py_func)]
        self._caches = [
            one for one in objects
            if isinstance(one, functools._lru_cache_wrapper) and self._is_own(one.__wrapped__)
        ]  # fmt: skip

    def _is_own(self, function: Any) -> bool:
        code = getattr(function, "__code__", None)
        return code is not None and code.co_filename.startswith(str(self._package))

    def swap(self, mutant: Mutant) -> None:
        """Raises NotSwappable."""
        new, found = self._pair(mutant)
        for function in found:
            try:
                function.__code__ = new
            except ValueError as error:  # it needs other variables of the class around it
                raise NotSwappable from error
        for kernel in self._affected(found):
            kernel._cache = NullCache()
            kernel._make_finalizer()()
            kernel._reset_overloads()
        for cache in self._caches:
            cache.cache_clear()

    def kernels_of(self, mutant: Mutant) -> list[Any]:
        """Those with the mutant in them. Raises NotSwappable."""
        return self._affected(self._pair(mutant)[1])

    def callers(self, kernels: list[Any]) -> set[tuple[str, str]]:
        """File and name of the functions that call one of the kernels, as it isn't seen what
        machine code reaches."""
        return {
            (f.__code__.co_filename, f.__code__.co_qualname)
            for f in self._functions
            if any(_refers(f, kernel) for kernel in kernels)
        }

    def _pair(self, mutant: Mutant) -> tuple[CodeType, list[FunctionType]]:
        """The mutant's code, and the functions that are to have it."""
        path = self._package / mutant.module
        source = path.read_bytes()
        before, after = (
            _functions(compile(text, str(path), "exec", dont_inherit=True))
            for text in (source, mutant.of(source))
        )
        for old, new in zip(before, after, strict=True):
            if mutant.line in _lines(old) and old != new:
                found = [f for f in self._functions if _same(f.__code__, old)]
                if found:
                    return new, found
        raise NotSwappable

    def _affected(self, functions: list[FunctionType]) -> list[Any]:
        """Kernels of these functions, and all that call those."""
        found = [k for k in self.kernels if any(k.py_func is f for f in functions)]
        for one in found:  # which grows meanwhile
            found += [k for k in self.kernels if k not in found and _refers(k.py_func, one)]
        return found


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Functions of a module and of its classes, without those inside them."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                yield inner
            else:
                yield from _functions(inner)


def _lines(code: CodeType) -> range:
    def last(code: CodeType) -> int:
        inner = [last(one) for one in code.co_consts if isinstance(one, CodeType)]
        return max([line or 0 for *_, line in code.co_lines()] + inner)

    return range(code.co_firstlineno, last(code) + 1)


def _same(one: CodeType, other: CodeType) -> bool:
    where = (one.co_filename, one.co_qualname, one.co_firstlineno)
    return where == (other.co_filename, other.co_qualname, other.co_firstlineno)


def _refers(function: FunctionType, kernel: Any) -> bool:
    """Whether a global name that the function uses is the kernel."""
    used = map(function.__globals__.get, _names(function.__code__))
    return any(one is kernel for one in used)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
