"""What workers hand on in staged files, kept to be searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spark_repl.apply.start.replica import Parts
from spark_repl.decode.stage_task import Staged, StageTask
from spark_repl.decode.stage_worker import stage
from tests.support.local_delta import HERE


def kept_too(folder: Path) -> Parts:
    """The parts of an applier below Spark that leaves a copy of all that was staged in ``folder``,
    also of what is small enough to be in no file."""

    def kept(task: StageTask) -> Staged:
        staged = stage(task)
        folder.mkdir(exist_ok=True, parents=True)
        for part in staged.parts:
            data = part.blob if part.path is None else Path(part.path).read_bytes()
            (folder / f"{len(list(folder.iterdir()))}.arrow").write_bytes(data or b"")
        return staged

    return replace(HERE, stage=kept)
