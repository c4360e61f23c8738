"""Java classes: the few of ours that Spark's JVM needs, beside those that they stand in for.

Their sources and what Janino has made of them lie in ``java/`` (``python -m
tests.support.java_source`` makes them anew, a test compares): no JDK is needed, no jar, and no
setting before the JVM starts, so they are there in a session that somebody else has started too.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

FOLDER = Path(__file__).with_name("java")
_DEFINING = threading.Lock()
"""channels of one process have one JVM, which takes a class once"""
UNAVAILABLE = (Py4JError, AttributeError, TypeError, OSError)
"""no JVM that may be asked (Spark Connect), another Java, another make of Delta: whoever meets them
does without the class"""


def ensure(jvm: Any, beside: str, *names: str) -> bool:
    """Has classes of ours in the package and the class loader of the one ``beside`` them, each
    behind those that it extends or makes; there already or now. Raises one of ``UNAVAILABLE`` where
    that can't be done."""
    with _DEFINING:
        if not is_defined(jvm, beside, names[-1]):
            define(jvm, beside, *(compiled(name) for name in names))
        return is_defined(jvm, beside, names[-1])


def compiled(name: str) -> bytes:
    """A class of ours, as Java loads it. Raises OSError."""
    return (FOLDER / f"{name.rpartition('.')[2]}.class").read_bytes()


def is_defined(jvm: Any, beside: str, name: str) -> bool:
    """Whether there is such a class in the class loader of the other. Raises Py4JError."""
    loader = _class(jvm, beside).getClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, True, loader) is not None
    except Py4JError:
        return False


def define(jvm: Any, beside: str, *classes: bytes) -> None:
    """Raises Py4JError."""
    handles = jvm.java.lang.invoke.MethodHandles
    lookup = handles.privateLookupIn(_class(jvm, beside), handles.lookup())
    for code in classes:
        lookup.defineClass(code)


def _class(jvm: Any, name: str) -> Any:
    """Spark's and Delta's jars may be known to the thread's class loader alone."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
