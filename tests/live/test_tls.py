"""The source's certificate is checked by the authority that is given, and its name where asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.errors import SourceError
from spark_repl.source.connection import connect
from tests.support.authority import Authority
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Server


def test_a_certificate_is_checked(make_server: Callable[..., Server], tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    certificate, key = ours.sign("localhost")
    server = make_server(f"--ssl-ca={ours.file}", f"--ssl-cert={certificate}", f"--ssl-key={key}")
    server.query("CREATE USER 'known'@'%' IDENTIFIED BY 'k' REQUIRE X509")

    def cipher(**values: str) -> str:
        connection = connect(config_for(server, tmp_path, **values).source)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
                return str(cursor.fetchone()[1])
        finally:
            connection.close()

    # An authority that is given checks by itself; the name is asked for.
    assert cipher(tls_ca=ours.file)
    assert cipher(tls_ca=ours.file, tls="verify_identity", host="localhost")
    for refused in (
        {"tls_ca": other.file}, {"tls": "verify_ca"},
        {"tls_ca": ours.file, "tls": "verify_identity"},  # 127.0.0.1 is no name in it
    ):  # fmt: skip
        with pytest.raises(SourceError, match="no TLS connection") as caught:
            cipher(**refused)
        assert "source.tls_ca" in str(caught.value.hint)

    # A client's own certificate.
    known = {"user": "known", "password": "k", "tls_ca": ours.file}
    with pytest.raises(SourceError, match="Access denied"):
        cipher(**known)
    mine, secret = ours.sign("client")
    assert cipher(**known, tls_cert=mine, tls_key=secret)

    # The log comes by a connection of that kind.
    checked = config_for(
        server, tmp_path, tls_ca=ours.file, tls="verify_identity", host="localhost"
    )
    server.query("CREATE DATABASE t")
    with Running(checked) as running:
        running.wait_for(server.executed)
