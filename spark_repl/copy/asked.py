"""What whoever has left a request looks at while he waits: whether anybody carries requests out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.records.channels import layout_of
from ..errors import TargetError
from ..observe.reports.applier_status import read_applier_status
from .repair_request import READ

if TYPE_CHECKING:
    from ..config import Config


def check_answers(config: Config, epoch: int, asked: str) -> None:
    """Takes the request of that name back, and raises TargetError, where the applier that owns the
    target in that ``epoch`` says that it carries out none. One of a version before says nothing."""
    layout = layout_of(config)
    said = read_applier_status(layout.status) or {}
    if said.get("epoch") != epoch or said.get("answers", True):
        return
    request = Path(layout.requests, asked)
    request.unlink(missing_ok=True)
    shutil.rmtree(request.with_suffix(READ), ignore_errors=True)  # of a run that was killed
    raise TargetError(
        "the applier that owns the target copies and repairs nothing beside its work",
        file=config.target.path,
        hint="stop it (apply, or a job of yours) and ask again: it is done here then; or let"
        " spark-repl run follow the source, which does so beside its work",
    )
