"""The services of ``conf/compose`` as processes: their commands, environments and files. No
container runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.conftest import MakeServer
from tests.support.live.receiving import Command, processes
from tests.support.live.server import free_port
from tests.support.s3_server import s3_server
from tests.support.wait_until import wait_until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "conf" / "compose"
TOKEN = "a-token-of-24-characters"
PASSWORD = "app"  # the test's server has an account with it


@pytest.fixture
def services() -> dict[str, Any]:
    text = (FOLDER / "compose.yaml").read_text("utf-8")
    text = re.sub(r"\$\{MYSQL_ROOT_PASSWORD[^}]*\}", PASSWORD, text).replace("$$", "$")
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def replaced(text: str, values: Mapping[str, str]) -> str:
    for old, new in values.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def container_command() -> list[str]:
    """Return the arguments with which the image starts spark-repl."""
    text = (ROOT / "conf" / "container" / "Containerfile").read_text("utf-8")
    words = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE))
    assert json.loads(words["ENTRYPOINT"]) == ["tini", "--", "spark-repl"]
    return list(json.loads(words["CMD"]))


def rows(port: int) -> list[Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/rows?table=shop.customer",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    with suppress(OSError), urllib.request.urlopen(request, timeout=60) as answer:
        return list(json.load(answer).get("rows", []))
    return []


def test_the_store_has_the_tested_version(services: dict[str, Any]) -> None:
    version = services["store"]["image"].partition(":")[2]
    assert f"moto=={version}\n" in (ROOT / "constraints.txt").read_text("utf-8")


@pytest.mark.soak
def test_the_services_follow_the_shop(
    services: dict[str, Any], make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server(*services["mysql"]["command"].split())
    healthy = replaced(services["mysql"]["healthcheck"]["test"], {"-uroot": "-uapp"})
    own = {"PATH": f"{server.mysql / 'bin'}:{os.environ['PATH']}", "MYSQL_ROOT_PASSWORD": PASSWORD,
           "MYSQL_TCP_PORT": str(server.port)}  # fmt: skip
    check = partial(
        subprocess.run, ["bash", "-c", healthy], env={**os.environ, **own}, capture_output=True
    )
    assert check(check=False).returncode, "it is not healthy before the shop exists"
    for statement in (FOLDER / "shop.sql").read_text("utf-8").split(";\n"):
        if statement.strip():
            server.query(statement)
    check(check=True)
    (tmp_path / "token").write_text(TOKEN)
    port, file = free_port(), tmp_path / "replica.toml"
    file.write_text(replaced((FOLDER / "replica.toml").read_text("utf-8"), {
        '"mysql"': f'"127.0.0.1"\nport = {server.port}', '"root"': '"app"',
        "0.0.0.0:8470": f"127.0.0.1:{port}", "/run/secrets/token": str(tmp_path / "token"),
        "/var/lib/spark_repl/data": str(tmp_path),
    }))  # fmt: skip
    with s3_server() as store:
        url = {"http://store:5000": store["AWS_ENDPOINT_URL"]}
        name, script = services["bucket"]["command"]
        assert services["bucket"]["entrypoint"] == "python" and name == "-c"
        subprocess.run([sys.executable, "-c", replaced(script, url)], check=True)
        environment = dict(services["spark_repl"]["environment"])
        environment["AWS_ENDPOINT_URL_S3"] = replaced(environment["AWS_ENDPOINT_URL_S3"], url)
        words = [str(file) if word.startswith("/etc/") else word for word in container_command()]
        process = Command(
            [sys.executable, "-m", "spark_repl", *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0, env={**os.environ, **environment},
        )  # fmt: skip
        processes.append(process)
        wait_until(lambda: len(rows(port)) == 2, 240, each_s=0.5)
        server.query("INSERT INTO shop.customer (name) VALUES ('Ada')")
        wait_until(lambda: len(rows(port)) == 3, 240, each_s=0.2)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err.decode()[-3000:]
