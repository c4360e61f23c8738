"""What clients of object stores are told, and which of the AWS tools' profiles they take."""

from __future__ import annotations

import errno

import pytest

from spark_repl.delta.store.delta_rs_read import opened
from spark_repl.errors import ConfigError
from spark_repl.runtime import store_clients
from spark_repl.runtime.object_store import ObjectStore
from spark_repl.runtime.retry import temporary
from spark_repl.runtime.store_clients import client_of, delta_rs_options
from tests.support.s3_server import BUCKET, s3_server

RETRY = {"max_retries": "5", "retry_timeout": "60s", "backoff_config.max_backoff": "2s"}
LOADED = {"aws_force_credential_load": "true", **RETRY}
OBJECT = f"s3a://{BUCKET}/a"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home without a profile, and an environment without variables of the AWS tools."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


def test_delta_rs_is_told_of_endpoint_and_region(home, monkeypatch):
    assert delta_rs_options(OBJECT) == RETRY
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert delta_rs_options(OBJECT) == {"aws_region": "eu-central-1", **RETRY}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.delenv("AWS_REGION")
    assert delta_rs_options(OBJECT) == {
        "aws_endpoint": "http://127.0.0.1:9000", "allow_http": "true", "aws_region": "us-east-1",
        **RETRY,
    }  # fmt: skip


def test_a_profile_of_the_aws_tools_is_taken(home, monkeypatch):
    (home / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile shop]\nregion = us-west-2\n"
    )
    keys = "aws_access_key_id = {0}\naws_secret_access_key = hidden\n"
    (home / "credentials").write_text(
        f"[default]\n{keys.format('mine')}[shop]\n{keys.format('shops')}aws_session_token = t\n"
    )
    assert delta_rs_options(OBJECT) == {"aws_region": "eu-west-1", **LOADED}
    assert store_clients._read_keys()["access_key_id"] == "mine"
    monkeypatch.setenv("AWS_PROFILE", "shop")
    assert delta_rs_options(OBJECT) == {"aws_region": "us-west-2", **LOADED}
    given = store_clients._read_keys()
    assert (given["access_key_id"], given["token"]) == ("shops", "t")


def test_a_profile_without_keys_is_named(home, monkeypatch):
    (home / "config").write_text("[profile sso]\nsso_session = corp\n")
    monkeypatch.setenv("AWS_PROFILE", "sso")
    with pytest.raises(ConfigError, match="profile sso has no keys") as caught:
        client_of(OBJECT)
    assert "aws configure export-credentials --profile sso" in caught.value.hint


@pytest.fixture
def process(home):
    """Set the profile's process, in a Python process that no such process has answered."""
    store_clients._process_answered.clear()
    store_clients.forget_clients()
    yield lambda command: (home / "config").write_text(
        f"[default]\ncredential_process = {command}\n"
    )
    store_clients.forget_clients()


def test_a_process_that_fails_at_the_first_request_is_named(process):
    process("false")
    with pytest.raises(ConfigError, match="the credential_process of the AWS profile fails") as one:
        ObjectStore().read(OBJECT)
    assert "Traceback" not in str(one.value)


@pytest.mark.parametrize(
    "command",
    ["false", "/no/such/program", "echo no JSON", "echo {}", "sh -c 'echo KEY >&2; false'"],
)
def test_delta_rs_names_a_process_that_fails(process, monkeypatch, command):
    """Found: "Kernel error -> Operation not supported", and what the process had written."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    process(command)
    named = "the credential_process of the AWS profile fails"
    with pytest.raises(ConfigError, match=named) as caught, opened(OBJECT):
        pass
    assert "KEY" not in str(caught.value) and "credential_process" in caught.value.hint


def test_a_process_that_has_answered_before_is_asked_again(home, process):
    """Found: one failure, of a service that is away for a moment, stopped the applier for good."""
    (home / "keys").write_text('{"AccessKeyId": "a", "SecretAccessKey": "b"}')
    process(f"cat {home / 'keys'}")
    assert store_clients._ask_process()["access_key_id"] == "a"
    process("false")
    with pytest.raises(OSError, match="credential_process") as caught:
        ObjectStore().read(OBJECT)
    assert caught.value.errno == errno.EKEYEXPIRED and temporary(caught.value)


def test_the_keys_of_a_profile_sign_requests(home, monkeypatch):
    """A server that asks for nothing but a signature takes them."""
    with s3_server() as environment:
        for name in ("AWS_ENDPOINT_URL", "AWS_EC2_METADATA_DISABLED"):
            monkeypatch.setenv(name, environment[name])
        (home / "credentials").write_text(
            "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
        )
        import obstore

        client, key = client_of(OBJECT)
        obstore.put(client, key, b"1")
        assert obstore.get(client, key).bytes() == b"1"
