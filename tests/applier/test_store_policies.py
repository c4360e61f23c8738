"""conf/policies: everything that uses the store works under the policies of S3. Without one of
their actions something is refused. moto checks the signature and the policy of each request.

moto evaluates no conditions: the recorded requests show that each list is of the policy's prefix.
The roles of Google and Azure, whose emulators check none, have the actions for which
docs/object-stores.md gives reasons.
"""

from __future__ import annotations

import copy
import json
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from spark_repl.cli.main import main
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store import storage
from spark_repl.delta.store.remover import Remover
from spark_repl.errors import SparkReplError
from spark_repl.relay.archive import RelayArchive
from tests.support.archived_log import archived, archiver, contents, received, write_source
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, last_shown, run
from tests.support.s3_server import BUCKET, requested, user_of

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "conf" / "policies"
PAGE = (ROOT / "docs" / "object-stores.md").read_text("utf-8")
A, B = Table("a"), Table("b")
BRANCH = (b"branch", b"", 1)
_ACTIONS = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject"}


def policy(name: str, target: str = "") -> Any:
    """A policy of conf/policies, for a target."""
    text = (POLICIES / name).read_text("utf-8")
    bucket, _, prefix = target.partition("://")[2].partition("/")
    return json.loads(text.replace("BUCKET", bucket).replace("PREFIX", prefix))


def actions(of: Any) -> list[str]:
    return [action for statement in of["Statement"] for action in statement["Action"]]


@pytest.fixture
def target(s3_prefix: str) -> str:
    return s3_prefix


def use_everything(log: LogWriter, target: str, folder: Path) -> None:
    """Apply, compact, prepare and end an XA branch, verify, export, VACUUM, archive and reset."""
    log.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")))
    log.xa_prepare(BRANCH, insert(A, (3, "xa")))
    assert run(log.folder, target, group_max_transactions=1)
    for number in range(4):  # small files, which are compacted
        log.transaction(insert(A, (10 + number, "x")), update(B, ((1, "x"), (1, "x"))))
        assert run(log.folder, target, group_max_transactions=1)
    log.xa_end("COMMIT", BRANCH)
    log.transaction(delete(A, (1, "x")))
    assert run(log.folder, target, group_max_transactions=1)
    with storage.open_output(f"{target}/t/a/part-large.parquet") as out:  # in parts
        out.write(bytes(11 << 20))
    first, last = (cut.gtid_executed for cut in (cuts(target)[0], cuts(target)[-1]))
    config = folder / "run.toml"
    config.write_text(f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\n')
    config.chmod(0o600)
    exported = str(folder / "cut.json")
    assert main(["cut", "export", "--target", target, "--out", exported]) == 0
    assert main(["verify", "--config", str(config), "--between", first, last]) in (0, 1)
    assert vacuum(f"{target}/t/a", Remover(), time.time() + 1e7) > 0
    files, archive = write_source(folder / "source"), RelayArchive(f"{target}/_repl/relay")
    received(folder / "relay", files)
    archiver(folder / "relay", archive, target=target).turn()
    assert archived(archive, 1) == contents(folder / "relay")
    archive.forget(target)
    assert main(["reset", "--config", str(config), "--all"]) == 0


@pytest.mark.slow
def test_policy_allows_everything_and_only_what_is_used(
    log: LogWriter, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = policy("s3.json", target)
    with user_of(allowed) as keys, requested() as requests:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        use_everything(log, target, tmp_path)
    used = set[str]()
    place = target.removeprefix("s3a://")
    patterns = [
        re.escape(pattern).replace(r"\*", ".*")
        for pattern in allowed["Statement"][0]["Condition"]["StringLike"]["s3:prefix"]
    ]
    for method, url in (request.split(" ", 1) for request in requests):
        parts = urlsplit(url)
        query = parse_qs(parts.query, keep_blank_values=True)
        if "list-type" in query:
            used.add("s3:ListBucket")
            (prefix,) = query["prefix"]
            assert any(re.fullmatch(pattern, prefix) for pattern in patterns), prefix
        elif "delete" in query:
            used.add("s3:DeleteObject")
        elif "/moto-api/" not in url:
            assert parts.path.startswith(f"/{place}/"), url
            used.add("s3:PutObject" if method == "POST" else _ACTIONS[method])
    # The store's client aborts an upload if a part fails: not here.
    assert used == {*actions(allowed)} - {"s3:AbortMultipartUpload"}


@pytest.mark.parametrize("action", [*actions(policy("s3.json"))][:-1])
def test_each_action_is_needed(
    log: LogWriter, target: str, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    less = copy.deepcopy(policy("s3.json", target))
    for statement in less["Statement"]:
        statement["Action"] = [one for one in statement["Action"] if one != action]
    log.transaction(insert(A, (1, "x")))
    with user_of({**less, "Statement": [s for s in less["Statement"] if s["Action"]]}) as keys:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SparkReplError, match="refuses"):
            run(log.folder, target)


def test_reader_reads_and_writes_nothing(
    log: LogWriter, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log.transaction(insert(A, (1, "x")))
    assert run(log.folder, target)
    with user_of(policy("s3-reader.json", target)) as keys:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        assert last_shown(target)["t.a"] == [(1, "x")]
        exported = str(tmp_path / "cut.json")
        assert main(["cut", "export", "--target", target, "--out", exported]) == 0
        with pytest.raises(SparkReplError, match="refuses"):
            storage.put(f"{target}/more", b"1")
        with pytest.raises(SparkReplError, match="refuses"):
            storage.remove(f"{target}/_repl/lease.json")


@pytest.mark.parametrize("home", ["", Layout.home_of("eu")])
def test_reader_is_refused_what_masks_and_filters_leave_out(
    log: LogWriter, target: str, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    log.transaction(insert(A, (1, "x")))
    assert run(log.folder, target)
    layout = Layout(target, home=home)
    unmasked = (
        layout.relay_archive,
        layout.xa,
        layout.quarantine,
        layout.staging(1, in_target=True),
    )
    for folder in (*unmasked, layout.control):
        storage.put(f"{folder}/1/chunk", b"rows")
    with user_of(policy("s3-reader.json", target)) as keys:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        for folder in unmasked:
            with pytest.raises(SparkReplError, match="refuses"):
                storage.read(f"{folder}/1/chunk")
        assert storage.read(f"{layout.control}/1/chunk") == b"rows"
        assert last_shown(target)["t.a"] == [(1, "x")]


def test_lifecycle_rules_are_valid(target: str) -> None:
    rules = policy("s3-lifecycle.json", target)
    store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    store.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration=rules)
    answer = store.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert [rule["ID"] for rule in answer] == [rule["ID"] for rule in rules["Rules"]]
    store.delete_bucket_lifecycle(Bucket=BUCKET)


def named_actions(name: str) -> set[str]:
    text = (POLICIES / name).read_text("utf-8")
    if name.endswith(".yaml"):
        return {*re.findall(r"- (storage\.\S+)", text)}
    fields = json.loads(text)
    if "Statement" in fields:
        return {*actions(fields)}
    return {"/".join(action.split("/")[-2:]) for action in fields["DataActions"]}


@pytest.mark.parametrize("name", ["s3.json", "s3-kms.json", "gcs-role.yaml", "azure-role.json"])
def test_page_gives_a_reason_for_each_action_and_no_other(name: str) -> None:
    section = PAGE.rsplit(f"`conf/policies/{name}`", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \|", section.split("\n\n| ", 1)[1], re.M)
    assert {action for action, _ in rows} == named_actions(name)
    assert all(reason.strip() for _, reason in rows)
