"""The allowed values of configuration keys: a rule is a function that returns what is wrong with a
value, or None.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from ipaddress import ip_address
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Rule = Callable[[Any], str | None]
_PARTITIONED = re.compile(r"([^\s.()`]+\.[^\s()`]+)\(([^()`]+)\)")
_ENTRY = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+")
_CATALOG_URI = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?")
_OFFSET = re.compile(r"[+-](0\d|1[0-4]):[0-5]\d")
POLICIES = ("apply", "additive_only", "stop", "ignore_drop")
LISTEN = "127.0.0.1:8470"
"""the address at which ``run`` serves its page by default"""
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:@\[\]]+):(\d{1,5})")


def nearest(word: object, words: Collection[str], *, alike: float = 0.5) -> str:
    """Return the end of an error message that names the most similar of ``words`` to a misspelt
    word; "" if no word is ``alike`` (0 to 1) enough."""
    by_letters = {one.lower(): one for one in words}
    near = difflib.get_close_matches(str(word).lower(), [*by_letters], 1, alike)
    return f"; the nearest is {by_letters[near[0]]}" if near else ""


def integer(low: int, high: int = 2**63 - 1) -> Rule:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"must be an integer, not {value!r}"
        return None if low <= value <= high else f"must be between {low} and {high}, not {value}"

    return check


def lease(value: Any) -> str | None:
    """Accept the number of seconds for which an owner's lease is valid: 0 for no lease, or enough
    time to renew it."""
    return None if value == 0 else integer(4, 3600)(value)


def choice(*words: str) -> Rule:
    def check(value: Any) -> str | None:
        named = ", ".join(filter(None, words))
        wrong = f"must be one of {named}, not {value!r}{nearest(value, words)}"
        return None if value in words else wrong

    return check


def writer(value: Any) -> str | None:
    """Accept the only way to write tables; ``""`` used to mean the best one for a runtime."""
    if value == "merge":
        return (
            'is "merge", which is no longer there: commits no longer need Delta in the JVM, and'
            " direct writes on every runtime. Tables that merge wrote go on as they are. Take"
            " apply.writer out"
        )
    return None if value in ("direct", "") else f"must be direct, not {value!r}"


def text(pattern: str, wanted: str) -> Rule:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"must be a string, not {value!r}"
        return None if re.fullmatch(pattern, value, re.DOTALL) else f"must be {wanted}"

    return check


def flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"must be true or false, not {value!r}"


def unshown(pattern: str, wanted: str) -> Rule:
    """Return a rule for a text that is a secret, or may contain one by mistake. Error messages do
    not show the text."""

    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return "must be a string: write it in quotes"
        return None if re.fullmatch(pattern, value, re.DOTALL) else f"must be {wanted}"

    return check


def hosts(value: Any) -> str | None:
    """Accept a list of "host:port". Error messages do not show an entry, because it may contain
    another tool's password."""
    if not isinstance(value, list | tuple):
        return 'must be a list of "host:port"'
    for number, entry in enumerate(value, 1):
        match = _HOST_PORT.fullmatch(entry) if isinstance(entry, str) else None
        if match is None or not 1 <= int(match.group(2)) <= 65535:
            return f'must be a list of "host:port", but entry {number} is none'
    return None


def listen(value: Any) -> str | None:
    """Accept "host:port", "auto", or "" for none."""
    wanted = 'must be "host:port", "auto", or ""'
    if not isinstance(value, str):
        return f"{wanted}, not {value!r}"
    if value in ("", "auto"):
        return None
    match = _HOST_PORT.fullmatch(value)
    return None if match and int(match.group(2)) <= 65535 else wanted


def host_port(value: str) -> tuple[str, int]:
    """Return the two parts of a ``listen`` that is not empty; an IPv6 address without its
    brackets."""
    host, _, port = value.rpartition(":")
    return host.strip("[]"), int(port)


def is_local(value: str) -> bool:
    """Return whether only this machine can reach that ``listen``."""
    if value == "auto":
        return True
    host = host_port(value)[0]
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _list(value: Any, wanted: str, is_right: Callable[[Any], bool]) -> str | None:
    """Return what is wrong with a list: that it is none, or its first wrong entry; else None."""
    if not isinstance(value, list | tuple):
        return f"{wanted}, not {value!r}"
    wrong = [entry for entry in value if not is_right(entry)]
    return f"{wanted}, but holds {wrong[0]!r}" if wrong else None


def tables(value: Any) -> str | None:
    return _list(
        value, 'must be a list of "db.table"',
        lambda entry: isinstance(entry, str) and all(entry.partition(".")),
    )  # fmt: skip


def databases(value: Any) -> str | None:
    return _list(
        value, "must be a list of databases' names",
        lambda entry: isinstance(entry, str) and bool(entry),
    )  # fmt: skip


def rewrites(value: Any) -> str | None:
    wanted = 'must be a list of "from->to", two databases\' names'
    if not isinstance(value, list | tuple):
        return f"{wanted}, not {value!r}"
    for entry in value:
        old, _, new = (str(entry) if isinstance(entry, str) else "").partition("->")
        if not old.strip() or not new.strip() or "->" in new:
            return f"{wanted}, but holds {entry!r}"
        if "mysql" in (old.strip(), new.strip()):
            return f"{wanted}, and no schema of the server's own, but holds {entry!r}"
    return None


def template(*words: str) -> Rule:
    """Return a rule for a name with the placeholders ``{word}``."""
    parts = "|".join(rf"\{{{word}\}}" for word in words)
    shown = ", ".join(f"{{{word}}}" for word in words)
    return text(rf"([A-Za-z0-9_]|{parts})+", f"a name of letters, digits, _ and {shown}")


def metastore(value: Any) -> str | None:
    """Accept "thrift://host:port", several of them with commas, or ""."""
    wanted = 'must be "thrift://host:port", or ""'
    if not isinstance(value, str):
        return f"{wanted}, not {value!r}"
    parts = value.split(",") if value else []
    hosts = [part.strip().removeprefix("thrift://") for part in parts]
    given = all(part.strip().startswith("thrift://") for part in parts)
    return None if given and all(map(_HOST_PORT.fullmatch, hosts)) else f"{wanted}, not {value!r}"


def catalog_name(value: Any) -> str | None:
    """Accept a name that needs no quotes in SQL, or ""."""
    fits = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]*", value)
    return None if fits else f'must be a catalog\'s name, or "", not {value!r}'


def catalog_uri(value: Any) -> str | None:
    """Accept the address of Unity Catalog's API, or "". Error messages do not show the value, which
    may contain a token by mistake."""
    if value == "" or (isinstance(value, str) and _CATALOG_URI.fullmatch(value)):
        return None
    return 'must be "https://HOST/api/2.1/unity-catalog", or ""'


def entry_names(value: Any) -> str | None:
    def is_entry(entry: Any) -> bool:
        table, _, name = (entry if isinstance(entry, str) else "").partition("->")
        return all(table.strip().partition(".")) and bool(_ENTRY.fullmatch(name.strip()))

    return _list(value, 'must be a list of "db.table->schema.table"', is_entry)


def partitioned(entry: Any) -> tuple[str, tuple[str, ...]] | None:
    """Return (table, columns) of "db.table(column, ...)"; None for anything else."""
    match = _PARTITIONED.fullmatch(entry) if isinstance(entry, str) else None
    return match and (match[1], tuple(column.strip() for column in match[2].split(",")))


def partitions(value: Any) -> str | None:
    wanted = 'must be a list of "db.table(column, ...)"'
    if not isinstance(value, list | tuple):
        return f"{wanted}, not {value!r}"
    names = []
    for entry in value:
        if (parsed := partitioned(entry)) is None:
            return f"{wanted}, but holds {entry!r}"
        names.append(parsed[0])
        columns = [column.lower() for column in parsed[1]]
        if not all(columns) or len(set(columns)) < len(columns):
            return f"{wanted}, each column once, but holds {entry!r}"
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"names {twice} twice" if twice else None


def time_zone(value: Any) -> str | None:
    wanted = 'must be a time zone: "+02:00", "UTC" or "Europe/Berlin"'
    if not isinstance(value, str):
        return f"{wanted}, not {value!r}"
    if not value or _OFFSET.fullmatch(value):
        return None
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{wanted}, not {value!r}"
    return None


def policed(entry: Any) -> tuple[str, str] | None:
    """Return (pattern, policy) of "db.table: policy"; None for anything else."""
    if not isinstance(entry, str):
        return None
    pattern, _, policy = (part.strip() for part in entry.rpartition(":"))
    database, _, table = pattern.partition(".")
    return (pattern, policy) if database and table and policy in POLICIES else None


def policies(value: Any) -> str | None:
    named = ", ".join(POLICIES)
    if isinstance(value, str):
        return None if value in POLICIES else f"must be one of {named}, not {value!r}"
    wanted = f'must be a policy, or a list of "db.table: policy", with one of {named}'
    return _list(value, wanted, lambda entry: policed(entry) is not None)


ANY = text(r".*", "a string")
SOME = text(r"[^\x00]+", "a string that is not empty")
# Part of the appId of every Delta commit, and of a folder's name: a leading _ or . would hide it.
CHANNEL = text(
    r"[A-Za-z0-9][A-Za-z0-9_.$-]{0,63}",
    "1 to 64 letters, digits or any of _ . $ -, and begin with none of these",
)
SECRET = unshown(r".*", "a string")
HOST = unshown(r"[^\x00\s@/]+", "a host's name or address alone")
VARIABLE = unshown(r"([A-Za-z_][A-Za-z0-9_]*)?", "the name of an environment variable")
