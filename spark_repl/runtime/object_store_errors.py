"""Errors of object stores as Python's exceptions and the project's: the only translation.

obstore passes the text of a store's answer in exceptions of its own.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from ..errors import ConfigError, TargetError
from .target_uri import bucket_of, uri_parts

_NO_BUCKET = re.compile(
    r"NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound|specified (bucket|container) does not exist"
)
# The answer to a HEAD has no body that names the cause. The first request to a store is a list.
_EXPIRED = re.compile(
    r"Expired_?Token|Token_?Refresh_?Required|token (has|is) expired|Lifetime validation failed"
    r"|not valid in the specified time frame|performing HEAD .* 400 Bad Request:?\s*$",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN|MISSING_AUTH"
    r"|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|AuthenticationFailed|AuthorizationFailure|InvalidAuthenticationInfo"
    r"|HTTP response code 40[13]|\(code: 40[13]\)|40[13] (Forbidden|Unauthorized)|credential"
)
# Where a machine in a cloud gets its credentials: a machine elsewhere that was given none asks it.
_NO_CREDENTIALS = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
# A profile's credential_process: the error that ``store_clients`` raised, as obstore prints it.
_PROCESS = re.compile(
    r"External AWS credential provider: (ConfigError|OSError): (?:\[Errno \d+\] )?"
    r"(the credential_process .*)"
)
# delta-rs prints what a profile's process has written to standard error, so its text is not shown.
_PROCESS_OF_DELTA_RS = re.compile(r"Error retrieving credentials.{0,40}external process")
_UNTRUSTED = re.compile(r"InvalidCertificate\(\s*(\w*)|invalid peer certificate(?:\W|\d+m)*(\w*)")
_TIMED_OUT = re.compile(r"(?<!retry_)time(d )?[ -]?out|408 Request", re.IGNORECASE)
_THROTTLED = re.compile(r"\b(429|503) |SlowDown|ServerBusy|TooManyRequests")
_MOMENT = re.compile(
    r"HTTP error|error sending request|error decoding response|connection (closed|reset|error)"
    r"|\b50[024] |InternalError",
    re.IGNORECASE,
)
_VARIABLES = {
    "s3a": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL, AWS_REGION",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
    "abfss": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID,"
    " AZURE_CLIENT_SECRET and AZURE_TENANT_ID",
    "memory": "none",
}
_FIXED: Mapping[str, tuple[str, ...]] = {
    "s3a": ("AWS_ACCESS_KEY_ID",),
    "gs": (),
    "abfss": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN"),
    "memory": (),
}
"""by scheme, variables with credentials that may expire, and that nothing can renew while the
process runs"""
_on_expired: list[Callable[[], object]] = []
_MOST = 300
"""characters of a store's answer that are shown"""
_SIGNATURE = re.compile(r"((?:sig|signature|X-Amz-\w+|X-Goog-\w+)=)[^&\s)]+", re.IGNORECASE)


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Translate the errors of obstore's calls about ``path``.

    Raise FileNotFoundError, FileExistsError, TargetError, ConfigError, or OSError. The OSError has
    a number if a retry may succeed: EBUSY if the store is throttled, EKEYEXPIRED, ETIMEDOUT, EIO.
    """
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise _meaning(error, path) from error


def _meaning(error: Exception, path: str) -> Exception:
    text = _text(error)
    if cause := _process_failure(text, path) or _cause_of(error, text, path):
        return cause
    if isinstance(error, FileNotFoundError):
        return _numbered(FileNotFoundError, errno.ENOENT, path)
    if isinstance(error, AlreadyExistsError):
        return _numbered(FileExistsError, errno.EEXIST, path)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return refused(text, path)
    if _THROTTLED.search(text):
        return OSError(errno.EBUSY, text[:_MOST], path)
    if _TIMED_OUT.search(text):
        return TimeoutError(errno.ETIMEDOUT, text[:_MOST], path)
    if _MOMENT.search(text):
        return OSError(errno.EIO, text[:_MOST], path)
    return refused(text, path) if _REFUSED.search(text) else OSError(f"{text[:_MOST]}: {path}")


def _numbered(kind: type[OSError], number: int, path: str) -> OSError:
    return kind(number, os.strerror(number), path)


def _text(error: Exception) -> str:
    """Return an error's text on one line, without its source as Rust prints it, and without
    signatures."""
    text = str(error).partition("Debug source:")[0]
    return " ".join(_SIGNATURE.sub(r"\1...", text).split())


def recognized(error: OSError, path: str) -> ConfigError | TargetError | OSError | None:
    """Return the exception to raise for an error with a known cause: no bucket, refused or expired
    credentials, a profile's process that fails.

    ``error`` comes from any client of the store, and has no number. Return None for another error.
    """
    text = _text(error)
    if cause := _process_failure(text, path) or _cause_of(error, text, path):
        return cause
    return refused(text, path) if _REFUSED.search(text) else None


def _process_failure(text: str, path: str) -> ConfigError | TargetError | OSError | None:
    """Return the exception for a failure of a profile's ``credential_process``. A later attempt may
    succeed if the process has printed keys before."""
    hint = "run by hand the credential_process of AWS_PROFILE"
    if _PROCESS_OF_DELTA_RS.search(text):
        return ConfigError("the credential_process of the AWS profile fails", hint=hint)
    failure = _PROCESS.search(text)
    if failure is None:
        return None
    return (
        expired(failure[2], path) if failure[1] == "OSError" else ConfigError(failure[2], hint=hint)
    )


def _cause_of(error: Exception, text: str, path: str) -> TargetError | OSError | None:
    """Return the exception for an error whose ``text`` says that there is no bucket, or that
    credentials have expired, or for one of a certificate."""
    if _NO_BUCKET.search(text):
        return no_bucket(path)
    if _EXPIRED.search(text):
        return expired(text, path)
    if untrusted := _UNTRUSTED.search(str(error)):  # in the part that ``_text`` leaves out
        return TargetError(
            "the certificate of the object store is not trusted"
            f" ({untrusted[1] or untrusted[2] or 'TLS'})",
            file=path,
            hint="name a PEM file in SSL_CERT_FILE that has the certificate of its authority",
        )
    return None


def lacks_credentials(error: OSError) -> bool:
    """Return whether a machine outside a cloud has no credentials."""
    return bool(_NO_CREDENTIALS.search(str(error)))


def call_when_expired(action: Callable[[], object]) -> None:
    """Call ``action`` whenever credentials have expired that can be renewed."""
    _on_expired.append(action)


def expired(text: str, path: str) -> TargetError | OSError:
    """Return the exception for expired credentials: an OSError with a number if a new attempt can
    read newer ones, otherwise a TargetError. The store did not execute the request."""
    if any(os.environ.get(name) for name in _FIXED[uri_parts(path)[0]]):
        return TargetError(
            f"the credentials for the object store have expired: {text[:_MOST]}",
            file=path,
            hint="set new ones, then start again; it goes on where it was. A profile with a"
            " credential_process, a role of the machine, or a workload identity renews them",
        )
    for action in _on_expired:
        action()
    what = f"the credentials for the object store have expired, and are read again: {text[:_MOST]}"
    return OSError(errno.EKEYEXPIRED, what, path)


def refused(text: str, path: str) -> TargetError:
    return TargetError(
        f"the object store refuses: {text[:_MOST]}",
        file=path,
        hint="set the variables of credentials that may read, write, list and delete there:"
        f" {_VARIABLES[uri_parts(path)[0]]}",
    )


def no_bucket(path: str) -> TargetError:
    return TargetError(
        f"there is no bucket {bucket_of(path)}",
        file=path,
        hint="create it, or correct target.path; a bucket of another endpoint needs"
        " AWS_ENDPOINT_URL",
    )
