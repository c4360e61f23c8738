"""The URI of a target: which URIs of object stores a target may have, and the parts of one.

``store_clients`` has the clients of each store, with credentials from the environment.
"""

from __future__ import annotations

import os
import re

from ..config.relative_paths import NO_FOLDER
from ..errors import ConfigError

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_GCS_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_CONTAINER = re.compile(r"([a-z0-9][a-z0-9-]{1,61}[a-z0-9])(?:@([a-z0-9]{3,24})\.(.+))?")
_AZURE_HOSTS = ("dfs.core.windows.net", "blob.core.windows.net")
# delta-rs decodes percent signs, panics at some of the others, and takes a backslash for a slash.
_UNREADABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]^|\x00-\x1f\x7f]")
_REMOTE = ("s3a://", "gs://", "abfss://", "memory://")

_STATE = {"gs": "gs", "abfss": "az"}

_PLACES = {
    **dict.fromkeys(("s3", "s3a"), "s3://bucket/prefix"),
    **dict.fromkeys(("gs", "gcs"), "gs://bucket/prefix"),
    **dict.fromkeys(
        ("abfss", "abfs", "wasbs", "wasb", "az", "azure"),
        "abfss://container@account.dfs.core.windows.net/prefix",
    ),
}
"""by scheme, how a place there is written"""


def is_remote(path: str) -> bool:
    """Return whether a path is a URI of an object store, as ``canonical`` returns it."""
    return path.startswith(_REMOTE)


def canonical(path: str) -> str:
    """Return the path in the form that all other modules use, and that every writer and Spark
    accept: absolute, ``s3a://bucket/prefix``, ``gs://bucket/prefix``, or
    ``abfss://container@account.dfs.core.windows.net/prefix``. Raise ConfigError for any other
    path."""
    uri = _URI.fullmatch(path)
    if uri is None:
        if named := NO_FOLDER.match(path):
            raise ConfigError(
                f"a target that begins with {named[0]} would be a folder of that name here",
                file=path,
                hint="give a folder, as /data/lake, or a URI, as s3://bucket/prefix",
            )
        return _readable(os.path.abspath(path), path)
    scheme, rest = uri[1].lower(), uri[2]
    if scheme == "file" and rest.startswith("/"):
        return _readable(os.path.abspath(rest), path)
    if scheme not in _PLACES:
        raise ConfigError(
            f"a target can't lie on {scheme}://",
            file=path,
            hint="give a folder, s3://, gs:// or abfss://; other stores only where they speak S3"
            " (AWS_ENDPOINT_URL) or are mounted",
        )
    return _in_store(scheme, rest, path)


def _in_store(scheme: str, rest: str, given: str) -> str:
    usual = _PLACES[scheme]
    bucket, _, prefix = rest.partition("/")
    parts = prefix.rstrip("/").split("/")
    place = _place(scheme, bucket)
    if place is None and "@" in rest:
        raise ConfigError(
            "a target's URI has no keys in it",
            file=f"{scheme}://...@{rest.rpartition('@')[2]}",
            hint=f"give {usual}, and the keys by the environment, as docs/object-stores.md shows",
        )
    if place is None or not all(parts) or {".", ".."} & set(parts):
        raise ConfigError("this is no place in a bucket", file=given, hint=f"give {usual}")
    return _readable(f"{place}/{'/'.join(parts)}", given)


def _place(scheme: str, bucket: str) -> str | None:
    """Return the canonical URI of a bucket, None if that can't be one."""
    if scheme in ("s3", "s3a"):
        return f"s3a://{bucket}" if _BUCKET.fullmatch(bucket) else None
    if scheme in ("gs", "gcs"):
        return f"gs://{bucket}" if _GCS_BUCKET.fullmatch(bucket) else None
    container = _CONTAINER.fullmatch(bucket)
    if container is None or container[3] not in (None, *_AZURE_HOSTS):
        return None
    account = container[2] or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    return f"abfss://{container[1]}@{account}.{_AZURE_HOSTS[0]}" if account else None


def _readable(place: str, given: str) -> str:
    """Return ``place``. Raise ConfigError if delta-rs would read another folder in its stead."""
    if unreadable := _UNREADABLE.search(place):
        raise ConfigError(
            f"a target's path can't have {unreadable[0]!r} in it",
            file=given,
            hint="percent signs before two digits, [ ] ^ | \\ and control characters are not read"
            " alike by all that write there; blanks and letters of any language are",
        )
    return place


def uri_parts(path: str) -> tuple[str, str, str]:
    """Return scheme, bucket (Azure: container and account, as the URI has them) and key of a
    canonical URI."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    return scheme, bucket, key


def on_s3(path: str) -> bool:
    """Return whether a target's path, canonical or as it was given, is on S3."""
    return canonical(path).startswith("s3a://")


def state_folder(path: str) -> str:
    """Return a relative path for the local files of a canonical URI, different for each URI. Bucket
    names on S3 have at least three letters."""
    scheme = uri_parts(path)[0]
    return key_of(path) if scheme == "s3a" else f"{_STATE[scheme]}/{key_of(path)}"


def key_of(path: str) -> str:
    """Return ``bucket/key`` of a canonical URI."""
    return path.partition("://")[2]


def bucket_of(path: str) -> str:
    return uri_parts(path)[1]
