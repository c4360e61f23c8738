"""A server of Azure Blob for tests: azurite, of the npm package of that name.

``make emulators`` installs it into ``.cache/emulators``; ``SPARK_REPL_AZURITE`` names another
folder that has it in ``node_modules``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlencode

CONTAINER, ACCOUNT = "bank", "devstoreaccount1"
KEY = base64.b64encode(b"any key, as the server knows it too").decode()
OTHER_KEY = base64.b64encode(b"a key that the server does not know").decode()
_MAIN = "node_modules/azurite/dist/src/blob/main.js"
_LISTENS = re.compile(r"listens on (http://\S+)")
_VERSION = "2021-08-06"
_ROOT = Path(__file__).resolve().parents[2]


def missing() -> str:
    """Return why there is no server, "" if there can be one."""
    if not shutil.which("node"):
        return "no Node.js, which azurite runs on"
    return "" if _main().exists() else f"no azurite in {_folder()}: make emulators"


def _folder() -> Path:
    return Path(os.environ.get("SPARK_REPL_AZURITE") or _ROOT / ".cache/emulators")


def _main() -> Path:
    return _folder() / _MAIN


def environment(url: str) -> Mapping[str, str]:
    """The variables by which obstore and delta-rs find the server."""
    return {"AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}", "AZURE_STORAGE_ACCOUNT_KEY": KEY}


def shared_access_signature(permissions: str, end: datetime) -> str:
    """A SAS of the container, which is valid until ``end``."""
    expiry, version = end.strftime("%Y-%m-%dT%H:%M:%SZ"), "2022-11-02"
    place = f"/blob/{ACCOUNT}/{CONTAINER}"
    text = "\n".join([permissions, "", expiry, place, "", "", "", version, "c", *[""] * 7])
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    fields = {"sp": permissions, "se": expiry, "sv": version, "sr": "c"}
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


@contextmanager
def azure_server() -> Iterator[str]:
    """The URL of a server that has one empty container."""
    command = ["node", str(_main()), "--blobPort", "0", "--silent", "--inMemoryPersistence",
               "--skipApiVersionCheck", "--disableTelemetry"]  # fmt: skip
    accounts = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=accounts
    ) as server:
        assert server.stdout is not None
        listens = next(filter(None, map(_LISTENS.search, server.stdout)), None)
        assert listens is not None, "azurite has ended"
        _make_container(listens[1])
        yield listens[1]
        server.terminate()
        server.stdout.read()


def _make_container(url: str) -> None:
    date = formatdate(usegmt=True)
    text = (
        f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{_VERSION}\n"
        f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    )
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": _VERSION,
        "Content-Length": "0",
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    asked = f"{url}/{ACCOUNT}/{CONTAINER}?restype=container"
    urllib.request.urlopen(urllib.request.Request(asked, None, headers, method="PUT")).close()
