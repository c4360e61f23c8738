"""The list of a relay log's files: the one before, or the new one, also when power fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import FormatError, LogError
from spark_repl.relay.file_list import FileList, read_list, write_list
from tests.support.disk_steps import Step, disk_steps


def test_its_bytes_are_on_the_disk_before_its_name_and_that_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, files = disk_steps(monkeypatch), FileList("ab" * 16, (5, 6))
    write_list(tmp_path, files)
    written, name, folder = steps
    assert written.what == "sync" and written.name.startswith("relay.index.")
    assert written.size == (tmp_path / "relay.index").stat().st_size > 0
    assert (name, folder) == (Step("rename", "relay.index"), Step("sync", tmp_path.name))
    assert read_list(tmp_path) == files and len([*tmp_path.iterdir()]) == 1


def test_a_list_of_a_later_format_says_whose_it_is(tmp_path: Path) -> None:
    list_of = tmp_path / "relay.index"
    list_of.write_text(f"# spark_repl relay log format 7 by 9.8.1 {'ab' * 16}\nrelay.000001\n")
    with pytest.raises(FormatError, match=r"9\.8\.1"):
        read_list(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "binlog.000001\nrelay.000001\n", f"# spark_repl relay log {'ab' * 16}\n"]
)
def test_a_file_list_that_no_receiver_wrote_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "relay.index").write_text(text)
    with pytest.raises(LogError, match="not the receiver's") as caught:
        read_list(tmp_path)
    assert caught.value.file == str(tmp_path / "relay.index") and "relay.path" in str(
        caught.value.hint
    )
