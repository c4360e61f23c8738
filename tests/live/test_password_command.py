"""``source.password_command`` prints a token for each login, as cloud services issue them, to a
server that asks for ``mysql_clear_password``."""

from __future__ import annotations

import logging
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import SourceError
from spark_repl.receiver.report import read_report
from spark_repl.source.connection import connect
from tests.support.authority import Authority
from tests.support.examples import of_language
from tests.support.live.clear_password_server import ClearPasswordServer
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Server
from tests.support.wait_until import wait_until

_COMMAND = """#!/bin/sh
[ -e "$1.broken" ] && { echo "the role has expired" >&2; exit 7; }
number=$(($(cat "$1") + 1))
echo $number > "$1"
printf 'token-%s-' $number; head -c 1500 /dev/zero | tr '\\0' x; echo
"""


class Tokens:
    """A command that prints a new token each time, and a server that accepts each token once."""

    def __init__(self, folder: Path) -> None:
        self.count, script = folder / "count", folder / "token.sh"
        self.count.write_text("0")
        script.write_text(_COMMAND)
        script.chmod(0o700)
        self.command = f"{script} {self.count}"
        self.authority = Authority(folder, "authority")
        self.pair = self.authority.sign("localhost")
        self._used = set[str]()

    def accepts(self, token: str) -> bool:
        """Return whether it is the newest token, and was not used before."""
        fresh = token.startswith(f"token-{self.count.read_text().strip()}-x")
        fresh = fresh and token not in self._used
        self._used.add(token)
        return fresh

    def config(self, server: Server, folder: Path, port: int, **values: Any) -> Config:
        keys = {
            "host": "localhost", "port": port, "password": "", "password_command": self.command,
            "tls": "verify_identity", "tls_ca": self.authority.file, "connect_retry_s": 1,
        }  # fmt: skip
        return config_for(server, folder, **{**keys, **values})


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


def test_each_login_of_the_receiver_has_a_token_of_its_own(
    make_server: Callable[..., Server],
    tmp_path: Path,
    tokens: Tokens,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make_server()
    with ClearPasswordServer(server.port, *tokens.pair, tokens.accepts) as front:
        config = tokens.config(server, tmp_path, front.port)
        with caplog.at_level(logging.DEBUG), Running(config) as running:
            running.wait_for(server.executed)
            for number in range(2):
                server.cut_off("planted")
                server.query(f"CREATE DATABASE after_{number}")
                running.wait_for(server.executed)
            broken = Path(f"{tokens.count}.broken")
            broken.touch()
            server.cut_off("planted")
            wait_until(lambda: "the role has expired" in _error(config), each_s=0.05)
            broken.unlink()
            server.query("CREATE DATABASE after_all")
            running.wait_for(server.executed)
    assert len(front.tokens) >= 4 and len(set(front.tokens)) == len(front.tokens)
    assert min(map(len, front.tokens)) > 1500
    assert "token-" not in caplog.text + _error(config)
    assert not [path for path in Path(config.relay.path).iterdir() if b"token-" in _read(path)]


def test_the_command_of_the_rds_page_logs_in(
    make_server: Callable[..., Server],
    tmp_path: Path,
    tokens: Tokens,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """boto3 signs the token here, without a connection; our server only reads what it is for."""
    pytest.importorskip("boto3")
    (block,) = (one for one in of_language("toml") if one.page == "docs/sources/rds.md")
    command = tomllib.loads(block.text)["source"]["password_command"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = make_server()

    def accepts(token: str) -> bool:
        return token.startswith("db.example.com:3306/?Action=connect&DBUser=repl&")

    with ClearPasswordServer(server.port, *tokens.pair, accepts) as front:
        command = command.replace("python3", sys.executable, 1)
        source = tokens.config(server, tmp_path, front.port, password_command=command).source
        connect(source).close()
    assert len(front.tokens) == 1


def test_a_token_that_is_refused_is_not_shown(
    make_server: Callable[..., Server], tmp_path: Path, tokens: Tokens
) -> None:
    server = make_server()
    with (
        ClearPasswordServer(server.port, *tokens.pair, lambda _: False) as front,
        pytest.raises(SourceError, match="Access denied") as caught,
    ):
        connect(tokens.config(server, tmp_path, front.port).source)
    assert caught.value.number == 1045 and "token-" not in str(caught.value)
    assert len(front.tokens) == 1


def test_no_token_is_sent_without_tls(
    make_server: Callable[..., Server], tmp_path: Path, tokens: Tokens
) -> None:
    server = make_server()
    with ClearPasswordServer(server.port, *tokens.pair, tokens.accepts) as front:
        config = tokens.config(server, tmp_path, front.port, tls="disabled", tls_ca="")
        with pytest.raises(SourceError, match="in the clear") as caught:
            connect(config.source)
    assert "source.tls" in str(caught.value.hint) and front.tokens == []


def test_no_token_is_sent_to_a_server_with_another_certificate(
    make_server: Callable[..., Server], tmp_path: Path, tokens: Tokens
) -> None:
    server = make_server()
    pair = Authority(tmp_path, "stranger").sign("localhost")
    with (
        ClearPasswordServer(server.port, *pair, tokens.accepts) as front,
        pytest.raises(SourceError, match="no TLS connection"),
    ):
        connect(tokens.config(server, tmp_path, front.port).source)
    assert front.tokens == []


def _error(config: Config) -> str:
    return str((read_report(config.relay.path) or {}).get("LAST_ERROR_MESSAGE"))


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
