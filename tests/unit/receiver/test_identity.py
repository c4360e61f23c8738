"""The UUID under which a source knows a receiver, also after the receiver's disk was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.errors import SourceError
from spark_repl.receiver.identity import create_identity, identity, read_identity
from spark_repl.source.source_check import check_identity


def config(folder: Path, target: str, channel: str = "", server_id: int = 4711) -> Config:
    return Config.from_mapping({
        "channel": channel or "default",
        "source": {"server_id": server_id},
        "relay": {"path": str(folder)},
        "target": {"path": target},
    })  # fmt: skip


def uuid_of(folder: Path, target: str, channel: str = "", server_id: int = 4711) -> str:
    create_identity(config(folder, target, channel, server_id))
    folder.mkdir(exist_ok=True)
    return identity(folder)


def test_a_source_follows_the_receiver_of_a_new_disk(tmp_path: Path) -> None:
    """Found: the source still lists the receiver of a lost machine, and refused the new one."""
    lost = uuid_of(tmp_path / "lost", "s3://bucket/lake")
    listed = [{"Server_Id": 4711, "Replica_UUID": lost, "Host": "lost"}]
    check_identity(listed, 4711, uuid_of(tmp_path / "new", "s3a://bucket/lake/"))
    with pytest.raises(SourceError, match="another replica"):
        check_identity(listed, 4711, uuid_of(tmp_path / "disk", str(tmp_path / "lake")))


def test_other_receivers_have_other_uuids(tmp_path: Path) -> None:
    uuids = {
        uuid_of(tmp_path / "0", "s3://bucket/lake"),
        uuid_of(tmp_path / "1", "s3://bucket/lake", "east"),
        uuid_of(tmp_path / "2", "s3://bucket/lake", server_id=4712),
        uuid_of(tmp_path / "3", "s3://bucket/other"),
        uuid_of(tmp_path / "4", str(tmp_path / "lake")),
        uuid_of(tmp_path / "5", str(tmp_path / "lake")),
    }
    assert len(uuids) == 6


def test_a_folder_keeps_its_uuid(tmp_path: Path) -> None:
    """Also where its target has moved, and where several targets have one relay log."""
    existing = identity(tmp_path)
    for target in ("s3://bucket/lake", "s3://bucket/moved"):
        assert uuid_of(tmp_path, target) == existing


def test_a_target_on_a_disk_leaves_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    create_identity(config(folder, str(tmp_path / "lake")))
    assert not folder.exists() and not read_identity(folder)
