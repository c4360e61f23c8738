"""The cache of kernels' machine code. Loaded code was compiled from the sources of this process.

numba's own cache compares only the file of a kernel. It ignores the kernels and constants of other
files that are compiled into it. Here the folder's name is a digest of all sources that contain
kernels, and of the versions that compiled them. An entry is one file, named by the kernel, its
argument types and the processor. So processes and machines may write at the same time: none loads
code for other types or for another processor.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

# numba declares no types for them.
_rebuild: Any = CompileResult._rebuild
_dumps: Any = dumps
_config: Any = config

_logger = logging.getLogger(__name__)
_PACKAGE = __name__.partition(".")[0]
_SIGNATURE = 3
"""index in the tuple to which numba reduces a CompileResult"""
KERNEL_MODULES = (
    "binlog",
    "copy/printed_values.py",
    "copy/text_rows.py",
    "decode/cascades/cascade_simulation.py",
    "decode/cascades/row_chains.py",
    "decode/folding.py",
    "binlog/kernels/key_hash.py",
    "decode/lineage.py",
    "receiver/packet.py",
    "receiver/recovery.py",
    "relay/file_transactions.py",
    "schedule/waves.py",
    "verify/row_sample.py",
    "write/files/key_index.py",
    "write/rows/net_changes.py",
)
"""files and folders with kernels, or with constants that are compiled into kernels"""


class KernelCache(_Cache):
    """One kernel's machine code, for each signature that it was called with."""

    def __init__(self, function: Callable[..., Any], user_folder: Callable[[], Path]) -> None:
        """Create the cache of a kernel. ``user_folder`` returns the user's cache folder."""
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._enabled, self._user_folder = True, user_folder

    @property
    def cache_path(self) -> str:
        return str(self._folders[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored CompileResult of the signature, or None."""
        target_context.refresh()
        if not self._enabled:
            return None
        entry = self._entry(sig, target_context.codegen())
        for folder in self._folders:
            try:
                stored, code = pickle.loads((folder / _file(entry)).read_bytes())
            except (OSError, EOFError, pickle.UnpicklingError):  # missing, or truncated by a crash
                continue
            if stored == entry:
                return _rebuild(target_context, *code)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not self._enabled or data.lifted or data.library.has_dynamic_globals:
            return
        if _digest() != _SOURCES:
            return  # replaced since this process began: its code may be of both versions
        entry = self._entry(sig, data.codegen)
        content = _dumps((entry, data._reduce()))
        why = ""
        for folder in self._folders:
            try:
                _write(folder, _file(entry), content)
                return
            except OSError as error:
                why = error.strerror or str(error)
        _warn(why, self._folders)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        for folder in self._folders:
            for path in folder.glob(f"{self._name}-*.nbc"):
                path.unlink(missing_ok=True)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return _folders(self._user_folder)

    def _entry(self, sig: Any, codegen: Any) -> tuple[str, str, str]:
        return self._name, repr(sig), repr(codegen.magic_tuple())


def load_kept(user_folder: Callable[[], Path]) -> int:
    """Load the stored machine code of all kernels for this processor, without compiling any. Return
    the number of signatures.

    A process calls this before it forks others, which then share the code. LLVM starts no thread
    for it. ``user_folder``: as for ``KernelCache``.
    """
    count = 0
    for path in (path for folder in _folders(user_folder) for path in sorted(folder.glob("*.nbc"))):
        with suppress(OSError, EOFError, pickle.UnpicklingError, ImportError, AttributeError):
            (name, types, processor), code = pickle.loads(path.read_bytes())
            module, _, function = name.rpartition(".")
            kernel = getattr(import_module(module), function)
            given, loaded = code[_SIGNATURE].args, repr(kernel.targetctx.codegen().magic_tuple())
            if (types, processor) == (repr(given), loaded):
                kernel.compile(given)
                count += 1
    return count


def is_kernel_module(module: str) -> bool:
    """Return whether the digest in the folder's name covers the module."""
    path = module.replace(".", "/").removeprefix(f"{_PACKAGE}/")
    return any(f"{path}.py" == source or path.startswith(f"{source}/") for source in KERNEL_MODULES)


def _digest() -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name, source in sorted(_sources()):
        digest.update(f"{name} {len(source)} ".encode() + source)
    return digest.hexdigest()


def _sources() -> Iterator[tuple[str, bytes]]:
    for name in KERNEL_MODULES:
        place = files(_PACKAGE).joinpath(name)
        if name.endswith(".py"):
            yield name, place.read_bytes()
        else:
            yield from _below(name, place)


def _below(name: str, folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for child in folder.iterdir():
        if child.name.endswith(".py"):
            yield f"{name}/{child.name}", child.read_bytes()
        elif child.is_dir() and child.name != "__pycache__":
            yield from _below(f"{name}/{child.name}", child)


_SOURCES = _digest()


@cache
def _folders(user_folder: Callable[[], Path]) -> tuple[Path, ...]:
    """Return the folders of entries: a folder below NUMBA_CACHE_DIR if it is set; otherwise one
    beside the package and one in the user's cache. All are read. Entries are written to the first
    one that is writable."""
    package = Path(__file__).parents[2]
    versions = (
        f"numba {numba.__version__}", f"llvmlite {llvmlite.__version__}",
        f"numpy {np.__version__}", f"{sys.implementation.cache_tag} {platform.python_version()}",
        f"checked {bool(_config.BOUNDSCHECK)}",
    )  # fmt: skip
    name = f"kernels-{_SOURCES}-{_short(*versions)}"
    installed = f"{_PACKAGE}-{_short(str(package))}"
    given = _config.CACHE_DIR
    own = [package / "__pycache__", user_folder() / "kernels" / installed]
    above = [Path(given, installed)] if given else own
    return tuple(folder / name for folder in above)


def _short(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _file(entry: tuple[str, ...]) -> str:
    return f"{entry[0]}-{_short(*entry)}.nbc"


def _write(folder: Path, name: str, content: bytes) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _remove_others(folder)
    part = folder / f"{name}.{os.getpid()}.part"
    try:
        part.write_bytes(content)
        part.replace(folder / name)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _remove_others(folder: Path) -> None:
    """Remove the folders of other sources. Processes that still run with these sources compile
    missing kernels again."""
    for other in folder.parent.glob("kernels-*"):
        if not other.name.startswith(f"kernels-{_SOURCES}-"):
            shutil.rmtree(other, ignore_errors=True)


@cache
def _warn(why: str, folders: tuple[Path, ...]) -> None:
    _logger.warning(
        "each process compiles its kernels again, as it can't write to any of %s (%s)."
        " Try: let SPARK_REPL_CACHE or NUMBA_CACHE_DIR name a folder where it can",
        ", ".join(str(folder.parent) for folder in folders), why,
    )  # fmt: skip
