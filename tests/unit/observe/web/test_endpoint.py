"""The endpoint answers who may ask, on a port that is free again when it is closed."""

from __future__ import annotations

import http.client
import json
import re
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from spark_repl import Config
from spark_repl.errors import ConfigError, TargetError
from spark_repl.observe.web.endpoint import TEXT, Endpoint, EndpointSnapshot, check_free


@contextmanager
def served(look=lambda: "spark_repl_x 1\n", **observe) -> Iterator[Endpoint]:
    endpoint = Endpoint(settings(**observe))
    try:
        endpoint.serve({"/metrics": EndpointSnapshot(TEXT, look)})
        yield endpoint
    finally:
        endpoint.close()


def settings(**observe):
    """Port 0 is no setting: here it is what port 1 means."""
    made = Config.from_mapping({"observe": {"listen": "127.0.0.1:1", **observe}}).observe
    return replace(made, listen=re.sub(r"^(127\.0\.0\.1|\[::1\]):1$", r"\1:0", made.listen))


def get(endpoint, path="/metrics", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_endpoint_answers_and_ends():
    with served() as endpoint:
        assert get(endpoint) == (200, "spark_repl_x 1\n")
        assert get(endpoint, "/metrics?x=1")[0] == 200
        assert get(endpoint, "/etc/passwd")[0] == get(endpoint, "/")[0] == 404
        port = endpoint.port
        assert endpoint.address == f"http://127.0.0.1:{port}/"
    with pytest.raises(ConnectionRefusedError):
        get(endpoint)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"can't listen on {listen}: Address already in use"):
            check_free(settings(listen=listen))
    check_free(settings(listen=listen))
    check_free(Config().observe)


def test_a_page_of_another_name_reads_nothing():
    with served() as endpoint:
        assert get(endpoint, Host="evil.example")[0] == 421
        assert get(endpoint, Host=f"evil.example:{endpoint.port}")[0] == 421
        for name in ("localhost", f"LOCALHOST:{endpoint.port}", "[::1]:8470"):
            assert get(endpoint, Host=name)[0] == 200


def test_the_token_is_asked_for(tmp_path):
    file = tmp_path / "token"
    file.write_text("s3cret-ü\nmore\n", "utf-8")
    with served(token_file=str(file)) as endpoint:
        for said in ({}, {"Authorization": "Bearer s3cret"}, {"Authorization": "s3cret-ü"}):
            encoded = {k: v.encode() for k, v in said.items()}
            code, text = get(endpoint, **encoded)
            assert code == 401 and "s3cret" not in text
        assert get(endpoint, Authorization="Bearer s3cret-ü".encode())[0] == 200
        for given, code in (("me:s3cret-ü", 200), (":s3cret-ü", 200), ("s3cret-ü", 401)):
            said = f"Basic {b64encode(given.encode()).decode()}"
            assert get(endpoint, Authorization=said)[0] == code, given
        assert get(endpoint, Authorization="Basic s3cret-")[0] == 401


def test_a_token_that_can_not_be_read_is_named(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(ConfigError, match=r"observe\.token_file can't be read: No such file"):
        Endpoint(settings(token_file=str(file)))
    file.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        Endpoint(settings(token_file=str(file)))


def test_other_addresses_need_a_token():
    for listen in ("0.0.0.0:8470", "[::]:8470", "192.0.2.1:8470", "host.example:8470"):
        with pytest.raises(ConfigError, match=r"needs observe\.token_file"):
            settings(listen=listen)
        assert settings(listen=listen, token_file="x").listen == listen
    for listen in ("localhost:8470", "127.0.0.2:1", "[::1]:8470"):
        assert settings(listen=listen).listen == listen
    for wrong in ("8470", "127.0.0.1:", "127.0.0.1:99999", 8470, "user:secret@h:1"):
        with pytest.raises(ConfigError, match=r"observe\.listen must be"):
            settings(listen=wrong)


def test_what_can_not_be_looked_at_is_said_and_logged(caplog):
    def look() -> str:
        raise TargetError("gone", file="s3://bucket/with/secret")

    with served(look) as endpoint:
        code, text = get(endpoint)
    assert code == 503 and "secret" not in text
    assert "nothing to be seen at /metrics: gone" in caplog.text


def test_many_requests_share_a_look():
    looks = []

    def look() -> str:
        looks.append(1)
        return "x 1\n"

    with served(look) as endpoint:
        assert {get(endpoint) for _ in range(5)} == {(200, "x 1\n")}
    assert len(looks) < 5


def test_a_browser_is_told_what_it_may_do():
    with served() as endpoint:
        connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=60)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        answer.read()
        connection.close()
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    allowed = answer.headers["Content-Security-Policy"]
    assert "; script-src 'self'; connect-src 'self';" in allowed
    assert "unsafe" not in allowed and "*" not in allowed and "frame-ancestors 'none'" in allowed


def raw(endpoint, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", endpoint.port), 60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_nothing_but_get_and_head_is_answered():
    looked = []

    def look() -> str:
        looked.append(1)
        return "x 1\n"

    with served(look) as endpoint:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"):
            said = raw(endpoint, f"{method} /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head, _, body = said.partition(b"\r\n\r\n")
            assert head.split()[1] == b"405" and b"\r\nAllow: GET, HEAD" in head, method
            assert body == b"Method Not Allowed\n" and not looked
        answer = raw(endpoint, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.split()[1] == b"200" and b"Content-Length: 4\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")


def test_what_is_no_request_comes_back_as_no_markup():
    with served() as endpoint:
        for request in (b"<script>alert(1)</script>\r\n\r\n", b"GET <b> x\r\n\r\n",
                        b"<b> / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"):  # fmt: skip
            answer = raw(endpoint, request)
            assert answer and b"<" not in answer, request[:40]
            if answer.startswith(b"HTTP/"):  # to a line that names no version there are no headers
                assert b"Content-Type: text/plain" in answer and b"nosniff" in answer
                assert b"Content-Security-Policy" in answer
        assert answer.split()[1] == b"414"


TOKEN = "0123456789-ü-token"


@contextmanager
def served_rows(tmp_path, rows=lambda fields: json.dumps(dict(fields))) -> Iterator[Endpoint]:
    file = tmp_path / "token"
    file.write_text(TOKEN, "utf-8")
    endpoint = Endpoint(settings(token_file=str(file), rows=True))
    try:
        endpoint.serve({
            "/": EndpointSnapshot("text/html", lambda: "page"),
            "/rows": EndpointSnapshot("application/json", str, rows, is_listed=False),
            "/assets/x.js": EndpointSnapshot("text/javascript", lambda: "1", is_public=True),
        })  # fmt: skip
        yield endpoint
    finally:
        endpoint.close()


def bearer(token=TOKEN):
    return {"Authorization": f"Bearer {token}".encode()}


def test_rows_need_the_token_and_the_page_itself(tmp_path):
    with served_rows(tmp_path) as endpoint:
        path = "/rows?table=t.a&at=latest&at=2026%2B1"
        assert get(endpoint, path, **bearer()) == (200, '{"table": "t.a", "at": "2026+1"}')
        for said in ({}, bearer("x" * 18), bearer("")):
            code, text = get(endpoint, path, **said)
            assert code == 401 and "t.a" not in text
        for site in ("cross-site", "same-site"):
            assert get(endpoint, path, **bearer(), **{"Sec-Fetch-Site": site})[0] == 403
        for site in ("same-origin", "none"):
            assert get(endpoint, path, **bearer(), **{"Sec-Fetch-Site": site})[0] == 200
        assert get(endpoint, path, Host="evil.example", **bearer())[0] == 421
        assert get(endpoint, "/x", **bearer()) == (404, "here are / /assets/x.js\n")


def test_each_request_for_rows_is_answered_anew(tmp_path):
    asked = []

    def rows(fields):
        asked.append(fields)
        return str(len(asked))

    with served_rows(tmp_path, rows) as endpoint:
        path = "/rows?table=t.a"
        assert [get(endpoint, path, **bearer())[1] for _ in range(2)] == ["1", "2"]


def test_there_are_no_rows_without_a_token():
    with pytest.raises(ConfigError, match=r"observe\.rows needs observe\.token_file"):
        settings(rows=True)
    endpoint = Endpoint(settings())
    endpoint.serve({"/rows": EndpointSnapshot("application/json", str, lambda fields: "rows")})
    try:  # even if a part of the program would serve them
        assert get(endpoint, "/rows?table=t.a")[0] == 403
    finally:
        endpoint.close()


def test_a_token_for_rows_is_no_short_one(tmp_path):
    file = tmp_path / "token"
    file.write_text("x" * 15)
    with pytest.raises(ConfigError, match="at least 16 characters"):
        Endpoint(settings(token_file=str(file), rows=True))


def test_a_browser_without_the_token_is_asked_for_it_by_a_page(tmp_path):
    with served_rows(tmp_path) as endpoint:
        connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=60)
        connection.request("GET", "/", headers={"Accept": "text/html"})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 401 and "observe.token_file" in text and TOKEN not in text
        assert answer.headers.get_all("WWW-Authenticate") == ["Bearer"], "no dialog of the browser"
        assert get(endpoint, "/assets/x.js") == (200, "1"), "its script is public"
        connection.close()
