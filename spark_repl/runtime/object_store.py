"""Object stores: which URIs a target may have, and S3's settings for the three that write there.

pyarrow writes and reads data files, delta-rs the control table, Hadoop's S3A inside Spark the
tables' commits. Each takes credentials as the AWS tools do (environment, profile, role); endpoint
and region come from the same environment variables for all three, read here alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

import pyarrow.fs

from ..config.relative_paths import NO_FOLDER
from ..errors import ConfigError

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# delta-rs decodes percent signs, panics at some of the others, and takes a backslash for a slash.
_UNREADABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]^|\x00-\x1f\x7f]")
_ENDPOINT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")


def is_remote(path: str) -> bool:
    """Whether a path is a URI of an object store, as ``canonical`` makes it."""
    return path.startswith("s3a://")


def canonical(path: str) -> str:
    """The path in the one form that is used everywhere: absolute, or ``s3a://bucket/prefix``, the
    only scheme that all three writers know. Raises ConfigError for what can't be a target."""
    uri = _URI.fullmatch(path)
    if uri is None:
        if named := NO_FOLDER.match(path):
            raise ConfigError(
                f"a target that begins with {named[0]} would be a folder of that name here",
                file=path,
                hint="give a folder, as /data/lake, or s3://bucket/prefix",
            )
        return _readable(os.path.abspath(path), path)
    scheme, rest = uri[1].lower(), uri[2]
    if scheme == "file" and rest.startswith("/"):
        return _readable(os.path.abspath(rest), path)
    if scheme not in ("s3", "s3a"):
        raise ConfigError(
            f"a target can't lie on {scheme}://",
            file=path,
            hint="give a folder, or s3://bucket/prefix; other stores only where they speak S3"
            " (AWS_ENDPOINT_URL) or are mounted",
        )
    bucket, _, prefix = rest.partition("/")
    parts = prefix.rstrip("/").split("/")
    if "@" in rest and not _BUCKET.fullmatch(bucket):
        raise ConfigError(
            "a target's URI has no keys in it",
            file=f"{scheme}://...@{rest.rpartition('@')[2]}",
            hint="give s3://bucket/prefix, and the keys as the AWS tools take them",
        )
    if not _BUCKET.fullmatch(bucket) or not all(parts) or {".", ".."} & set(parts):
        raise ConfigError("this is no place in a bucket", file=path, hint="give s3://bucket/prefix")
    return _readable(f"s3a://{bucket}/{'/'.join(parts)}", path)


def _readable(place: str, given: str) -> str:
    """Returns ``place``. Raises ConfigError when delta-rs would take another folder for it."""
    if unreadable := _UNREADABLE.search(place):
        raise ConfigError(
            f"a target's path can't have {unreadable[0]!r} in it",
            file=given,
            hint="percent signs before two digits, [ ] ^ | \\ and control characters are not read"
            " alike by all that write there; blanks and letters of any language are",
        )
    return place


def key_of(path: str) -> str:
    """``bucket/key`` of a URI."""
    return path.removeprefix("s3a://")


def _first(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def file_system() -> pyarrow.fs.FileSystem:
    """pyarrow's file system for S3, one for each process and endpoint."""
    return _file_system(_first(_ENDPOINT), _first(_REGION))


@cache
def _file_system(endpoint: str, region: str) -> pyarrow.fs.FileSystem:
    options: dict[str, str] = {}
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        options = {"scheme": scheme, "endpoint_override": host.rstrip("/")}
    if endpoint or region:
        options["region"] = region or "us-east-1"
    return pyarrow.fs.S3FileSystem(**options)


def delta_rs_options() -> dict[str, str]:
    """The storage_options of delta-rs."""
    endpoint, region = _first(_ENDPOINT), _first(_REGION)
    options = {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http:")).lower()}
    if not endpoint:
        options = {}
    if endpoint or region:
        options["aws_region"] = region or "us-east-1"
    return options


def store_options() -> tuple[tuple[str, str], ...]:
    """The options of an object store's client for conditional puts: delta-rs' own, as both are the
    same library."""
    return tuple(sorted(delta_rs_options().items()))


def spark_settings() -> Mapping[str, str]:
    """Settings of a Spark session that commits to S3."""
    endpoint, region = _first(_ENDPOINT), _first(_REGION)
    settings = {
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials"
        ".DefaultCredentialsProvider",
        # Buffers on disk want Hadoop's LocalFileSystem, and ours is the raw one.
        "fast.upload.buffer": "bytebuffer",
    }
    if endpoint:
        settings |= {"endpoint": endpoint, "path.style.access": "true"}
    if endpoint or region:
        settings["endpoint.region"] = region or "us-east-1"
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
