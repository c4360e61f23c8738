"""``init --on PLACE``: the files of each place, and what each place refuses."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_repl.cli.command_arguments import PLACE_NAMES
from spark_repl.cli.main import main
from spark_repl.cli.places import PLACES, place_findings
from spark_repl.config import Config

BUCKET = "s3://bucket/lake"
ELSEWHERE = [name for name, place in PLACES.items() if place.clustered and place.managed]
PAGES = Path(__file__).parents[3] / "docs" / "run-on"


def initialise(folder: Path, place: str, *words: str) -> int:
    given = ["--offline", "--on", place, "--host", "db.example.com", "--channel", "shop_eu"]
    return main(["init", "--config", str(folder / "my.toml"), *given, *words])


def found(place: str, **values: Any) -> list[str]:
    keys = {"source.host": "db.example.com", "target.path": BUCKET, **values}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in keys.items():
        section, _, name = key.partition(".")
        nested.setdefault(section, {})[name] = value
    config = Config.from_mapping(nested)
    return [f"{one.level} {one.what}" for one in place_findings(place, config, nested)]


def test_the_command_line_has_every_place_and_each_has_a_page() -> None:
    assert tuple(PLACES) == PLACE_NAMES
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_the_files_of_a_place_are_valid_and_complete(place: str, tmp_path: Path) -> None:
    assert initialise(tmp_path, place, "--target", BUCKET) == 0
    assert sorted(os.listdir(tmp_path)) == sorted(["my.toml", *PLACES[place].files])
    for name in PLACES[place].files:
        text = (tmp_path / name).read_text("utf-8")
        left = set(re.findall(r"@[a-z_]+@", text))
        assert left <= ({"@role@", "@artifacts@", "@wheel@"} if place == "glue" else set())
        assert "shop-eu" in text or name == "job.py" or place == "fabric"
        if name.endswith(".json"):
            json.loads(text)
        elif name.endswith(".py"):
            ast.parse(text)
        elif name.endswith(".sh"):
            subprocess.run(["sh", "-n", str(tmp_path / name)], check=True)
    again = Config.from_mapping(tomllib.loads((tmp_path / "my.toml").read_text("utf-8")))
    assert again.target.path == BUCKET


STUB = '#!/bin/sh\nfor word in "$0" "$@"; do printf \'%s\\n\' "${word##*/stubs/}"; done\n'
SET = (
    "CLUSTER", "ARTIFACTS", "ROLE", "WHEEL", "REGION", "MASTER", "PYSPARK_PYTHON", "HADOOP_CONF_DIR"
)  # fmt: skip


@pytest.mark.parametrize(
    ("place", "last"),
    [
        ("standalone", ["job.py", "my.toml"]),
        ("yarn", ["job.py", "my.toml"]),
        ("emr", ["--steps", "ARTIFACTS/job.py,my.toml]"]),
        ("glue", ["--job-name", "spark-repl-shop-eu"]),
        ("dataproc", ["--", "my.toml"]),
    ],
)
def test_a_script_calls_the_command_of_its_place(
    place: str, last: list[str], tmp_path: Path
) -> None:
    """Commands of that name print their words; nothing of the place runs."""
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name in ("aws", "gcloud", "spark-submit"):
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(0o700)
    assert initialise(tmp_path, place, "--target", BUCKET) == 0
    environment = {"PATH": f"{stubs}:{os.environ['PATH']}", **{name: name for name in SET}}
    done = subprocess.run(
        ["sh", "submit.sh", "--queue", "etl"], cwd=tmp_path, env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    first, *words = done.stdout.splitlines()
    assert ("--queue" in words) == (first == "spark-submit")
    assert first in ("aws", "gcloud", "spark-submit")
    assert words[-2] == last[0] and words[-1].endswith(last[1])
    if place == "glue":
        job = json.loads((tmp_path / "job.filled.json").read_text("utf-8"))
        assert job["Role"] == "ROLE"
        assert job["DefaultArguments"]["--extra-files"] == "ARTIFACTS/my.toml"
    without = {name: value for name, value in environment.items() if name != SET[0]}
    if place in ("emr", "dataproc"):
        refused = subprocess.run(
            ["sh", "submit.sh"], cwd=tmp_path, env=without, check=False, capture_output=True,
            text=True,
        )  # fmt: skip
        assert refused.returncode != 0 and "CLUSTER: set it to" in refused.stderr


def test_a_pod_gets_the_configuration(tmp_path: Path) -> None:
    assert initialise(tmp_path, "kubernetes", "--target", BUCKET) == 0
    settings, pod = yaml.safe_load_all((tmp_path / "kubernetes.yaml").read_text("utf-8"))
    assert settings["data"]["replica.toml"] == (tmp_path / "my.toml").read_text("utf-8")
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    config = tomllib.loads(settings["data"]["replica.toml"])
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert container["args"][:3] == ["run", "--config", f"{mounts[0]}/replica.toml"]
    assert config["relay"]["path"].startswith(f"{mounts[1]}/")


@pytest.mark.parametrize("place", ["kubernetes", "yarn"])
def test_a_check_names_executors_only_where_there_are_some(
    place: str, tmp_path: Path, capsys: Any
) -> None:
    assert initialise(tmp_path, place, "--target", BUCKET) == 0
    assert main(["config", "check", "--on", place, "--config", str(tmp_path / "my.toml")]) == 0
    assert ("on a cluster: executors" in capsys.readouterr().out) == PLACES[place].clustered


def test_no_file_is_written_if_one_exists(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "job.py").write_text("mine")
    assert initialise(tmp_path, "emr", "--target", BUCKET) == 2
    assert "--force" in capsys.readouterr().err and os.listdir(tmp_path) == ["job.py"]
    assert initialise(tmp_path, "emr", "--target", BUCKET, "--force") == 0
    assert (tmp_path / "job.py").read_text() != "mine"


def test_a_target_in_a_folder_is_an_error_of_init(tmp_path: Path, capsys: Any) -> None:
    assert initialise(tmp_path, "glue") == 1
    assert "AWS Glue share no such folder" in capsys.readouterr().err
    assert main(["config", "check", "--on", "glue", "--config", str(tmp_path / "my.toml")]) == 2
    assert initialise(tmp_path, "laptop", "--force") == 0


@pytest.mark.parametrize("place", ELSEWHERE)
def test_executors_that_share_no_disk(place: str) -> None:
    values = dict(PLACES[place].values)
    assert found(place, **values) == []
    assert "share no such folder" in found(place, **{**values, "target.path": "/data/lake"})[0]
    off = found(place, **{**values, "relay.archive": "off"})
    assert off[0].startswith('error relay.archive = "off": executors would read')
    assert "its own machine" in found(place, **{**values, "source.host": "127.0.0.1"})[0]
    assert "has no socket" in found(place, **{**values, "source.socket": "/s"})[-1]
    assert "--take-over" in found(place, **{**values, "apply.lease_s": 0})[-1]
    named = found(place, **{**values, "source.password_env": "P", "source.tls_ca": "/ca.pem"})
    assert named == [
        "warning source.password_env: $P has to be in the environment of the driver and of each"
        " executor",
        'warning source.tls_ca = "/ca.pem" has to be on the driver and on each executor',
    ]


def test_a_standalone_cluster_may_mount_folders() -> None:
    assert all(one.startswith("warning") for one in found("standalone", **{"target.path": "/d"}))
    assert found("standalone") == []


@pytest.mark.parametrize("place", ["kubernetes", "databricks", "fabric"])
def test_a_log_beside_a_mounted_configuration(place: str) -> None:
    values = dict(PLACES[place].values)
    below = f"{PLACES[place].mounted}/x/relay"
    assert f"is below {PLACES[place].mounted}" in found(place)[0]
    assert f'relay.path = "{below}"' in found(place, **{**values, "relay.path": below})[0]
    assert "state_path" in found(place, **{**values, "target.state_path": "state"})[0]


def test_a_laptop_refuses_nothing() -> None:
    assert found("laptop", **{"target.path": "lake", "source.host": "localhost"}) == []


def test_a_place_that_is_not_this_machine_needs_no_password_here(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REPL_PASSWORD", raising=False)
    assert initialise(tmp_path, "databricks", "--target", BUCKET) == 0
    words = ["config", "check", "--config", str(tmp_path / "my.toml")]
    assert main([*words, "--on", "databricks"]) == 0
    assert main(words) == 2 and "SPARK_REPL_PASSWORD" in capsys.readouterr().err
