"""Relative paths of a configuration start at its file's folder, wherever a command is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config, load, value_of
from spark_repl.config.relative_paths import command_beside, written_beside
from spark_repl.config.settings import toml

KEYS = (
    "source.socket", "source.password_file", "source.tls_ca", "source.tls_cert", "source.tls_key",
    "relay.path", "target.path", "target.state_path", "target.mask_key_file", "observe.token_file",
    "catalog.token_file",
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in a folder beside the working folder."""
    for name in ("conf", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "conf" / "r.toml"


def written(file: Path, **values: Any) -> Config:
    sections: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, []).append(f"{key} = {toml(value)}\n")
    file.write_text("".join(f"[{name}]\n{''.join(keys)}" for name, keys in sections.items()))
    return load(file)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("given", ["here", "./here", "sub/../here"])
def test_paths_start_at_the_folder_of_the_file(file: Path, key: str, given: str) -> None:
    more: dict[str, Any] = {}
    if "tls_" in key:
        more = {"source.tls_cert": "c", "source.tls_key": "k"}
    if key.startswith("catalog."):
        more = {"catalog.managed": True, "catalog.name": "a", "catalog.uri": "https://host/api"}
    assert value_of(written(file, **{**more, key: given}), key) == str(file.parent / "here")


def test_no_key_of_a_path_is_forgotten() -> None:
    ends = ("path", "_file", "socket", "tls_ca", "tls_cert", "tls_key")
    names = {name for name in Config().names() if name.endswith(ends)}
    assert names - {"source.log_file"} == set(KEYS)


def test_default_paths_start_at_the_folder_of_the_file(file: Path) -> None:
    config = written(file)
    assert config.relay.path == str(file.parent / "relay")
    assert config.target.path == str(file.parent / "lake")
    assert (config.target.state_path, config.source.tls_ca) == ("", "")


@pytest.mark.parametrize("place", ["/data/lake", "s3://bucket/lake", "s3:/bucket", "file:///a"])
def test_absolute_paths_and_uris_stay(file: Path, place: str) -> None:
    assert written(file, **{"target.path": place}).target.path == place


def test_a_relative_path_may_lead_above_the_file(file: Path) -> None:
    assert written(file, **{"target.path": "../lake"}).target.path == str(file.parents[1] / "lake")


def test_a_file_by_a_relative_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(file, **{"target.path": "lake"})
    monkeypatch.chdir(file.parents[1])
    assert load("conf/r.toml").target.path == str(file.parent / "lake")
    monkeypatch.chdir(file.parent)
    assert load("r.toml").target.path == str(file.parent / "lake")


def test_the_command_line_starts_at_the_working_folder(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(file, **{"target.path": "lake"})
    assert main(["config", "show", "--config", str(file), "--target", "mine"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('target.path = "mine"') for line in lines)
    assert any(line.startswith(f'relay.path = "{file.parent}/relay"') for line in lines)


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("./secret --of db", "/conf/secret --of db"), ("bin/secret", "/conf/bin/secret"),
        ("secret ./x", "secret ./x"), ("/bin/cat x", "/bin/cat x"), ("", ""), ('./a "b', './a "b'),
        ("'./a b' 'c d'", "'/conf/a b' 'c d'"),
    ],
)  # fmt: skip
def test_the_program_of_a_command_is_found_beside_the_file(command: str, run: str) -> None:
    assert command_beside("/conf/r.toml", command) == run


@pytest.mark.parametrize(
    ("given", "has"),
    [("conf/lake", "lake"), ("lake", "{0}/lake"), ("/lake", "/lake"), ("s3://b/l", "s3://b/l"),
     ("conf/..lake", "..lake"), ("conf", ".")],
)  # fmt: skip
def test_init_writes_the_target_relative_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, has: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert written_beside("conf/r.toml", given) == has.format(tmp_path)


def test_a_verify_from_another_folder_compares_the_same_target(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder that it is run from has a target of the same name."""
    written(file, **{"target.path": "lake"})
    (Path.cwd() / "lake" / "_repl" / "control").mkdir(parents=True)
    assert main(["verify", "--config", str(file), "--between", "latest", "latest"]) == 1
    assert str(file.parent / "lake") in capsys.readouterr().err
