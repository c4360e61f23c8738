"""Clients of object stores, with their endpoint, region and credentials.

obstore reads and writes all files of ours, delta-rs the control table. Both are built on one
library and read the same environment variables. They differ in the endpoint and region of S3, in
profiles of the AWS tools, and in endpoints without TLS: this module reads these for both.
"""

from __future__ import annotations

import configparser
import errno
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from ..errors import ConfigError
from .target_uri import uri_parts

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_ENDPOINT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AZURE_ENDPOINT = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_GOOGLE_ACCOUNT = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")
_READ_FROM = {
    "s3a": ("AWS_", "HOME"),
    "gs": ("GOOGLE_",),
    "abfss": ("AZURE_", "AZURITE_", "IDENTITY_", "MSI_"),
    "memory": (),
}
"""by scheme, how variables begin that a client depends on"""
_ONCE: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(0)}
"""of all requests that ``store_requests`` repeats"""
_PARTS_RETRY: RetryConfig = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
_DELTA_RS_RETRY = {
    "max_retries": "5",
    "retry_timeout": "60s",
    "backoff_config.max_backoff": "2s",
}
"""as _PARTS_RETRY: delta-rs holds the interpreter's lock meanwhile"""
Use = Literal["", "upload", "parts", "lease"]
"""what a client is used for: requests that are sent once, those among them with much content, those
of an object that is sent in parts, which obstore repeats, or requests about a lease, which have
less time"""
LEASE_S = 10
"""seconds of a request about a lease"""
_ANSWER_TIMEOUT = "30s"
"""of a request without much content, until its answer begins, and between two reads of the answer:
the time of the upload counts"""
_TIMEOUT = "120s"
"""of a request, with what is read in its answer"""
_PROFILE_AGE = timedelta(minutes=5)
"""after which keys of a profile are read again"""
_PROCESS_S = 60
"""seconds that a profile's process may take"""
_process_answered = threading.Event()
"""set after a profile's process has printed keys to this process"""


def client_of(path: str, use: Use = "") -> tuple[ObjectStore, str]:
    """Return the client of a URI's bucket, one for each process, bucket, environment and use, and
    the URI's key. Raise ConfigError."""
    scheme, bucket, key = uri_parts(path)
    begins = _READ_FROM[scheme]
    read = tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(begins)))
    if not begins:
        return _memory(bucket), key
    return _client(scheme, bucket, read, use), key


@cache
def _memory(_: str) -> MemoryStore:
    return MemoryStore()


@cache
def _client(scheme: str, bucket: str, _: tuple[tuple[str, str], ...], use: Use) -> ObjectStore:
    options: dict[str, Any] = {**_options(scheme, bucket)}
    allow_http = options.pop("allow_http", "false") == "true"
    client_options = {
        "timeout": f"{LEASE_S}s" if use == "lease" else _TIMEOUT,
        "allow_http": allow_http,
    }
    if not use:
        client_options["read_timeout"] = _ANSWER_TIMEOUT
    settings: dict[str, Any] = {
        "config": options,
        "client_options": client_options,
        "retry_config": _PARTS_RETRY if use == "parts" else _ONCE,
    }
    if scheme == "s3a":
        return S3Store(bucket, credential_provider=_profile_keys(), **settings)
    if scheme == "gs":
        return GCSStore(bucket, **settings)
    return AzureStore(bucket.partition("@")[0], **settings)


def delta_rs_options(path: str) -> dict[str, str]:
    """Return the storage_options of delta-rs for a URI."""
    scheme, bucket, _ = uri_parts(path)
    options = {**_options(scheme, bucket), **_DELTA_RS_RETRY}
    if scheme == "s3a" and _profile_keys():
        # Otherwise delta-rs reads no profile if the endpoint is not Amazon's.
        options["aws_force_credential_load"] = "true"
    return options


def _options(scheme: str, bucket: str) -> dict[str, str]:
    if scheme == "s3a":
        return _s3_options()
    if scheme == "gs":
        return _google_options()
    endpoint = _first(_AZURE_ENDPOINT)
    options = {"azure_storage_account_name": bucket.partition("@")[2].partition(".")[0]}
    if endpoint:
        options |= {"azure_endpoint": endpoint, "allow_http": _lacks_tls(endpoint)}
    return options


def _s3_options() -> dict[str, str]:
    endpoint, region = _first(_ENDPOINT), _first(_REGION)
    options = {"aws_endpoint": endpoint, "allow_http": _lacks_tls(endpoint)} if endpoint else {}
    region = region or str(_profile().get("region", ""))
    if endpoint or region:
        options["aws_region"] = region or "us-east-1"
    return options


def _google_options() -> dict[str, str]:
    """Return options for an endpoint that isn't Google's: it is part of the service account
    (``gcs_base_url``)."""
    text = os.environ.get("GOOGLE_SERVICE_ACCOUNT_KEY", "")
    try:
        if file := _first(_GOOGLE_ACCOUNT):
            with open(file, encoding="utf-8") as source:
                text = source.read()
        base = json.loads(text)["gcs_base_url"] if text else ""
    except (OSError, ValueError, LookupError, TypeError):
        return {}  # the client reports the fault
    return {"allow_http": _lacks_tls(base)} if base else {}


def _lacks_tls(endpoint: str) -> str:
    return str(endpoint.startswith("http:")).lower()


def _first(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _profile() -> Mapping[str, str]:
    """Return what the AWS tools' files have of the profile that they would take; where the
    environment has keys, only what it lacks."""
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    files = (
        (os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config", f"profile {name}"),
        (os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", name),
    )
    profile: dict[str, str] = {}
    for path, section in files:
        parser = configparser.RawConfigParser(default_section="", strict=False)
        try:
            parser.read(os.path.expanduser(path))
        except (configparser.Error, UnicodeDecodeError) as error:
            raise ConfigError("this file of the AWS tools can't be read", file=path) from error
        for title in (name, section):
            if parser.has_section(title):
                profile |= parser.items(title)
    return profile


def _profile_keys() -> Callable[[], Any] | None:
    """Return the function that returns a profile's keys, from its file or its process. Return None
    if the environment has keys, or if there is no profile. obstore itself knows the environment,
    web identities and the metadata of containers and machines. Raise ConfigError for a profile that
    is named and has no keys."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    profile = _profile()
    if "aws_access_key_id" in profile:
        return _read_keys
    if "credential_process" in profile:
        return _ask_process
    if name := os.environ.get("AWS_PROFILE"):
        raise ConfigError(
            f"the AWS profile {name} has no keys of its own",
            hint="give a profile this line, and name that one in AWS_PROFILE:"
            f" credential_process = aws configure export-credentials --profile {name}",
        )
    return None


def _read_keys() -> dict[str, Any]:
    profile = _profile()
    return {
        "access_key_id": profile.get("aws_access_key_id", ""),
        "secret_access_key": profile.get("aws_secret_access_key", ""),
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + _PROFILE_AGE,
    }


def _ask_process() -> dict[str, Any]:
    """Return the keys that the profile's ``credential_process`` prints.

    Raise ConfigError if it fails and has never printed keys to this process. Otherwise raise an
    OSError with EKEYEXPIRED: the process's own service may be away for a moment.
    """
    command = _profile().get("credential_process", "")
    try:
        answer = subprocess.run(
            shlex.split(command), capture_output=True, check=True, timeout=_PROCESS_S
        )
        printed = json.loads(answer.stdout)
        end = printed.get("Expiration")
        keys = {
            "access_key_id": printed["AccessKeyId"],
            "secret_access_key": printed["SecretAccessKey"],
            "token": printed.get("SessionToken"),
            "expires_at": datetime.fromisoformat(end) if end else datetime.now(UTC) + _PROFILE_AGE,
        }
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        # Not the output: it may have the keys.
        failure = f"the credential_process of the AWS profile fails ({type(error).__name__})"
        if _process_answered.is_set():
            raise OSError(errno.EKEYEXPIRED, failure) from error
        raise ConfigError(failure, hint=f"run it by hand: {command}") from error
    _process_answered.set()
    return keys


def forget_clients() -> None:
    """Make the next requests read credentials again, from profiles and all other sources."""
    _client.cache_clear()


def spark_settings() -> Mapping[str, str]:
    """Return the settings of a Spark session that reads S3."""
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
