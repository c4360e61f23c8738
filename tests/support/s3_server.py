"""An S3 server for tests: moto's, in a process of its own (delta-rs holds the GIL while it waits).

``python -m tests.support.s3_server`` serves until its input ends, and prints its port first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

BUCKET = "bank"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """The environment in which everything finds the server; it has one empty bucket."""
    command = [sys.executable, "-m", "tests.support.s3_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin is not None and one.stdout is not None
        url = f"http://127.0.0.1:{one.stdout.readline().strip()}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        one.stdin.close()


def check_credentials(url: str, *, wanted: bool) -> None:
    """Set whether the server checks credentials; it has no users until a test creates one."""
    body = b"0" if wanted else b"inf"
    plain = {"Content-Type": "text/plain"}
    urllib.request.urlopen(
        urllib.request.Request(f"{url}/moto-api/reset-auth", body, plain)
    ).close()


@contextmanager
def user_of(policy: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The keys of a user who may do what an IAM policy allows, and nothing else. The environment's
    server refuses all other requests in the context.

    moto evaluates no conditions, which deny everything there: they are left out. It checks the
    removal of several objects against their bucket.
    """
    import boto3

    url = os.environ["AWS_ENDPOINT_URL"]
    iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1")
    name = f"user-{uuid.uuid4()}"
    iam.create_user(UserName=name)
    keys = iam.create_access_key(UserName=name)["AccessKey"]
    statements = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in policy["Statement"]
    ]
    if any("s3:DeleteObject" in statement["Action"] for statement in statements):
        removal = {"Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{BUCKET}"}
        statements.append({"Effect": "Allow", **removal})
    document = json.dumps({**policy, "Statement": statements})
    iam.put_user_policy(UserName=name, PolicyName="policy", PolicyDocument=document)
    check_credentials(url, wanted=True)
    try:
        yield {
            "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        }
    finally:
        check_credentials(url, wanted=False)


def make_folder_object(uri: str) -> None:
    """Put an object of no bytes in a folder's place, as Hadoop does."""
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{uri.removeprefix('s3a://')}/"
    urllib.request.urlopen(urllib.request.Request(url, b"", method="PUT")).close()


@contextmanager
def requested() -> Iterator[list[str]]:
    """What the environment's server is asked for in the context, as method and URL: the list is
    filled at its end."""
    asked, recorder = list[str](), f"{os.environ['AWS_ENDPOINT_URL']}/moto-api/recorder"
    for step in ("reset-recording", "start-recording"):
        urllib.request.urlopen(f"{recorder}/{step}", b"").close()
    yield asked
    urllib.request.urlopen(f"{recorder}/stop-recording", b"").close()
    with urllib.request.urlopen(f"{recorder}/download-recording") as answer:
        recording = answer.read().decode()
    asked += [f"{entry['method']} {entry['url']}" for entry in recorded_entries(recording)]


def recorded_entries(recording: str) -> Iterator[dict[str, str]]:
    """Yield each entry of ``recording``. Two requests at once may share a line, because moto
    writes an entry and its line feed separately."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(recording):
        if recording[at].isspace():
            at += 1
            continue
        entry, at = decoder.raw_decode(recording, at)
        yield entry


def kind_of(request: str) -> str:
    """Return the kind of a request of ``requested``, as the applier counts it."""
    method, _, url = request.partition(" ")
    if method == "POST":
        return "delete" if "delete" in url else "put"
    return "list" if method == "GET" and "list-type" in url else method.lower()


def _serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MOTO_RECORDER_FILEPATH"] = os.path.join(folder, "requests")
        _serve_until_told()


def _put_one_by_one() -> None:
    """Make a PUT with a condition atomic, as it is on S3: moto checks the condition, and writes
    later. Found: of two writers on a busy machine, both had replaced the same object."""
    from moto.s3.responses import S3Response

    put, lock = S3Response.put_object, threading.Lock()

    def put_object(self: Any) -> Any:
        with lock:
            return put(self)

    S3Response.put_object = put_object


def _serve_until_told() -> None:
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    _put_one_by_one()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
