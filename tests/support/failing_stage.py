"""A worker's part of reading that fails once, on an executor: what Spark calls by its name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from spark_repl.decode.stage_task import Staged, StageTask
from spark_repl.decode.stage_worker import stage


def second_fails_once(task: StageTask) -> Staged:
    """Notes the worker in the file ``reads`` beside the log's folder."""
    notes = Path(task.spans[0].path).parent.with_name("reads")
    first = not notes.exists() or f"{task.worker}\n" not in notes.read_text()
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{task.worker}\n".encode())
    os.close(fd)
    if task.worker == 1 and first:
        raise OSError(errno.EIO, "Input/output error")
    return stage(task)
